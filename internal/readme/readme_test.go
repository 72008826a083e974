package readme

import (
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	block  = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")
	link   = regexp.MustCompile(`\]\(([^)#]+)\)`)
	output = regexp.MustCompile(`\t// (.*)\n}\n$`)
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func blocks(t *testing.T, text, language string) []string {
	t.Helper()
	var out []string
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	if len(out) == 0 {
		t.Fatalf("no %s block found", language)
	}
	return out
}

// The programs are laid over folders that do not exist, so that they are
// compiled inside the module without being written into it. One that looks at
// no machine prints what the comment at its end says.
func TestReadmePrograms(t *testing.T) {
	dir := t.TempDir()
	overlay := map[string]string{}
	var packages []string
	args := []string{"build", "-o", filepath.Join(dir, "programs") + string(filepath.Separator)}
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	programs := blocks(t, read(t, "README.md"), "go")
	for i, program := range programs {
		if formatted, err := format.Source([]byte(program)); err != nil || string(formatted) != program {
			t.Errorf("program %d: gofmt would change it, error %v", i, err)
		}
		file := filepath.Join(dir, fmt.Sprintf("program%d.go", i))
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("readmeprogram%d", i)
		overlay[filepath.Join(abs, "internal", "readme", name, "main.go")] = file
		packages = append(packages, "./internal/readme/"+name)
	}
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "-overlay", file)
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the README's programs: %v\n%s", err, out)
	}
	for i, program := range programs {
		if strings.Contains(program, `"/sys"`) {
			continue
		}
		m := output.FindStringSubmatch(program)
		if m == nil {
			t.Fatalf("program %d ends without its output", i)
		}
		out, err := exec.Command(filepath.Join(dir, "programs", fmt.Sprintf("readmeprogram%d", i))).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != m[1] {
			t.Errorf("program %d: %v, prints %q, want %q", i, err, out, m[1])
		}
	}
}

// The commands name files of the repository, so they run as they stand, except
// the one that looks at the reader's own machine.
func TestReadmeCommandsRun(t *testing.T) {
	var commands []string
	for _, b := range blocks(t, read(t, "README.md"), "sh") {
		for line := range strings.Lines(b) {
			line, _, _ = strings.Cut(line, "  #")
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "go run ./examples/amdctl ") && !strings.HasSuffix(line, " discover") {
				commands = append(commands, line)
			}
		}
	}
	if len(commands) == 0 {
		t.Fatal("no amdctl command found")
	}
	bin := filepath.Join(t.TempDir(), "amdctl")
	build := exec.Command("go", "build", "-o", bin, "./examples/amdctl")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, command := range commands {
		t.Run(command, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", strings.Replace(command, "go run ./examples/amdctl", bin, 1))
			cmd.Dir = root
			out, err := cmd.Output()
			if err != nil || len(out) == 0 {
				t.Errorf("%v, output %q", err, out)
			}
		})
	}
}

func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	for _, doc := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		for _, m := range link.FindAllStringSubmatch(read(t, doc), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}
