package pods

import (
	"os"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/amd"
)

func TestExamplesAreAdmittedAsTheyAre(t *testing.T) {
	devices, err := amd.New(amd.Config{StrictAdmission: true})
	if err != nil {
		t.Fatal(err)
	}
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 12 {
		t.Errorf("%d examples, want a dozen", len(all))
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range all {
		if p.APIVersion != "v1" || p.Kind != "Pod" {
			t.Errorf("%s is a %s %s, want a v1 Pod", p.File, p.APIVersion, p.Kind)
		}
		if !strings.HasSuffix(strings.TrimSuffix(p.File, ".yaml"), "-"+p.Name) {
			t.Errorf("%s holds pod %q, want the file named after it", p.File, p.Name)
		}
		if !strings.Contains(string(readme), "`"+p.File+"`") {
			t.Errorf("%s is not in the README", p.File)
		}
		if seen[p.Name] {
			t.Errorf("%s: there is another pod %q", p.File, p.Name)
		}
		seen[p.Name] = true
		admission, err := devices.Admit(p.DeepCopy())
		if err != nil {
			t.Errorf("%s: %v", p.File, err)
		} else if !admission.Asks {
			t.Errorf("%s asks for no GPU", p.File)
		}
	}
}
