package version

import (
	"runtime"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for name, test := range map[string]struct{ linked, known, want string }{
		"a release":            {"", "v0.1.0", "v0.1.0, go"},
		"an image":             {"v0.1.0", "(devel)", "v0.1.0, go"},
		"what the linker says": {"v0.1.1", "v0.1.0", "v0.1.1, go"},
		"no history":           {"", "(devel)", "unknown version, go"},
		"a test":               {"", "", "unknown version, go"},
	} {
		t.Run(name, func(t *testing.T) {
			got := line(test.linked, test.known)
			if !strings.HasPrefix(got, test.want) || !strings.HasSuffix(got, ", "+runtime.GOOS+"/"+runtime.GOARCH) {
				t.Errorf("%q, want it to begin with %q", got, test.want)
			}
		})
	}
	if got := String(); !strings.Contains(got, runtime.Version()) {
		t.Errorf("%q", got)
	}
}
