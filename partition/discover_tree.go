package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what is read. A kernel attribute is at most one page; a node's
// properties come in one buffer too, and pages of 64 KiB exist.
const (
	maxAttribute = 4096
	maxProps     = 16 << 10
	maxNames     = 1 << 16 // entries of one folder; hosts have thousands of PCI functions
)

var (
	errTooLarge = errors.New("larger than a kernel attribute")
	errTooMany  = errors.New("more entries than a kernel folder")
	errLink     = errors.New("is a symbolic link where the kernel has none")
)

// tree reads a sysfs mount and nothing else. Paths of several elements go
// through an os.Root, which follows links as long as they stay inside; from a
// folder that was opened so, single elements are opened without following.
type tree struct {
	root   *os.Root
	buf    []byte // holds what read returned last
	dirbuf []byte
	opened int // files and folders opened
	// openat2 says that the kernel's openat2 may be used.
	openat2 bool
}

func openTree(root string) (*tree, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open sysfs: %w", err)
	}
	return &tree{root: r, buf: make([]byte, maxProps+1), dirbuf: make([]byte, 16<<10), openat2: canOpenat2(r)}, nil
}

func (t *tree) close() { t.root.Close() }

// readlink returns the target of a link.
func (t *tree) readlink(path string) (string, error) { return t.root.Readlink(path) }

// read returns the content of a file by its path from the root, without the
// final newline.
func (t *tree) read(path string) (string, error) {
	dir, name := ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	f, err := t.folder(dir)
	if err != nil {
		return "", err
	}
	defer f.close()
	return f.text(name)
}

// names lists a folder by its path from the root.
func (t *tree) names(path string) ([]string, error) {
	f, err := t.folder(path)
	if err != nil {
		return nil, err
	}
	defer f.close()
	return f.names()
}

// text returns the content of an attribute without the final newline.
func (f *folder) text(name string) (string, error) {
	b, err := f.read(name, maxAttribute)
	return strings.TrimSuffix(string(b), "\n"), err
}

// optional is text for an attribute that need not be there: a missing file, an
// empty one and one that cannot be read are all "", as the kernel leaves out
// and empties files by generation, and fails reads while a GPU resets.
func (f *folder) optional(name string) string {
	s, err := f.text(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(s)
}

// number is optional for an attribute that holds an unsigned number.
func (f *folder) number(name string, base, bits int) (uint64, bool) {
	return parseUnsigned(f.optional(name), base, bits)
}

// parseUnsigned reads a number; a hexadecimal one may have a prefix.
func parseUnsigned(s string, base, bits int) (uint64, bool) {
	if base == 16 {
		s = strings.TrimPrefix(s, "0x")
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), base, bits)
	return n, err == nil
}

// numbered returns the names that are canonical decimal numbers, ascending:
// node 10 comes after node 9.
func numbered(names []string) []int {
	var out []int
	for _, s := range names {
		if n, ok := canonicalInt(s); ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// canonicalInt reads a number as the kernel writes one: no sign, no leading
// zero, at most seven digits.
func canonicalInt(s string) (int, bool) {
	if s == "" || len(s) > 7 || s[0] == '0' && s != "0" {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist)
}
