package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hook"
)

// The state file, in <host path>/vgpu, and what stands beside it: the next
// content until it is whole, and the last file that could not be read.
const (
	stateName       = "allocations.json"
	stateNextName   = stateName + ".next"
	stateBrokenName = stateName + ".broken"

	stateVersion = 1
	// stateMaxBytes is far above what a node's pods can hold: two annotations
	// each, a few hundred bytes where the CUs are in a few ranges.
	stateMaxBytes = 16 << 20
)

// stateFile keeps what a node has handed out over restarts of the plugin and of
// the machine:
//
//	{"version":1,"pods":{"<uid>":{"namespace":"ns","name":"p",
//	  "grants":"<hami.io/amd-devices-allocated>",
//	  "cus":<hami.io/amd-cu-allocated>,"containers":<hami.io/amd-cu-containers>}}}
type stateFile struct{ root *os.Root }

type stateContent struct {
	Version int             `json:"version"`
	Pods    json.RawMessage `json:"pods"`
}

type statePod struct {
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Grants     string          `json:"grants"`
	CUs        json.RawMessage `json:"cus"`
	Containers json.RawMessage `json:"containers,omitempty"`
}

// openStateFile opens the folder of the file and makes it if needed. A folder
// that cannot be written is found here, before any pod is.
func openStateFile(hostPath string) (*stateFile, error) {
	library, err := hook.HostLibrary(hostPath)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(library)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open %s: %w", stateName, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", stateName, err)
	}
	return &stateFile{root}, nil
}

func (f *stateFile) close() { f.root.Close() }

// read returns what was written last; nothing if there is no file. A file that
// cannot be understood is renamed and reported as broken; err is for a disk
// that does not do what it is told.
func (f *stateFile) read() (pods map[types.UID]*record, broken, err error) {
	content, err := f.content()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil {
		if pods, err = decodeState(content); err == nil {
			return pods, nil, nil
		}
	}
	broken = fmt.Errorf("%s is set aside as %s: %w", stateName, stateBrokenName, err)
	if err := f.root.Rename(stateName, stateBrokenName); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", broken, err)
	}
	return nil, broken, nil
}

func (f *stateFile) content() ([]byte, error) {
	// Opening a pipe would wait for a writer.
	info, err := f.root.Lstat(stateName)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("want a regular file, found %v", info.Mode())
	}
	file, err := f.root.Open(stateName)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, stateMaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(content) > stateMaxBytes {
		return nil, fmt.Errorf("more than %d bytes", stateMaxBytes)
	}
	return content, nil
}

// write replaces the content. Whoever looks, even after a loss of power, finds
// the old or the new one.
func (f *stateFile) write(pods map[types.UID]*record) error {
	content, err := encodeState(pods)
	if err == nil {
		err = f.replace(content)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", stateName, err)
	}
	return nil
}

func (f *stateFile) replace(content []byte) (err error) {
	// What is left under the name, a link to the hook or a pipe for two, is not
	// written to.
	if info, err := f.root.Lstat(stateNextName); err == nil && !info.IsDir() {
		if err := f.root.Remove(stateNextName); err != nil {
			return err
		}
	}
	next, err := f.root.OpenFile(stateNextName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err != nil {
		return err
	}
	if err := f.root.Rename(stateNextName, stateName); err != nil {
		return err
	}
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	// The rename has happened; that it also lasts is all the sync adds.
	return errors.Join(dir.Sync(), dir.Close())
}

func encodeState(pods map[types.UID]*record) ([]byte, error) {
	encoded := make(map[types.UID]statePod, len(pods))
	for uid, r := range pods {
		cus, err := annotations.EncodeCUs(r.cus)
		if err != nil {
			return nil, fmt.Errorf("pod %q: %w", r.holder(), err)
		}
		p := statePod{Namespace: r.namespace, Name: r.name, Grants: r.grants, CUs: json.RawMessage(cus)}
		if r.containers != nil {
			containers, err := annotations.EncodeContainerCUs(r.containers)
			if err != nil {
				return nil, fmt.Errorf("pod %q: %w", r.holder(), err)
			}
			p.Containers = json.RawMessage(containers)
		}
		encoded[uid] = p
	}
	list, err := json.Marshal(encoded)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(stateContent{Version: stateVersion, Pods: list})
	if err != nil {
		return nil, err
	}
	if len(content) > stateMaxBytes {
		return nil, fmt.Errorf("more than %d bytes", stateMaxBytes)
	}
	return content, nil
}

// decodeState reads what encodeState wrote and nothing else: a file that is
// believed in part would free CUs that are in use.
func decodeState(content []byte) (map[types.UID]*record, error) {
	var state stateContent
	if err := strictJSON(content, &state); err != nil {
		return nil, err
	}
	if state.Version != stateVersion {
		return nil, fmt.Errorf("version: want %d, found %d", stateVersion, state.Version)
	}
	members, err := objectMembers(state.Pods)
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	pods := make(map[types.UID]*record, len(members))
	for _, uid := range slices.Sorted(maps.Keys(members)) {
		r, err := decodeStatePod(members[uid])
		if err != nil {
			return nil, fmt.Errorf("pod %q: %w", uid, err)
		}
		pods[types.UID(uid)] = r
	}
	return pods, nil
}

func decodeStatePod(content []byte) (*record, error) {
	var p statePod
	if err := strictJSON(content, &p); err != nil {
		return nil, err
	}
	if p.Namespace == "" || p.Name == "" {
		return nil, fmt.Errorf("want a namespace and a name, found %q and %q", p.Namespace, p.Name)
	}
	if _, err := annotations.DecodePod(p.Grants); err != nil {
		return nil, fmt.Errorf("grants: %w", err)
	}
	r := &record{namespace: p.Namespace, name: p.Name, grants: p.Grants}
	var err error
	if r.cus, err = annotations.DecodeCUs(string(p.CUs)); err != nil {
		return nil, err
	}
	if p.Containers != nil {
		if r.containers, err = annotations.DecodeContainerCUs(string(p.Containers)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// strictJSON decodes one value that has no members but those of v and nothing
// after it.
func strictJSON(content []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// objectMembers returns the members of a JSON object, none of which may be
// there twice.
func objectMembers(content []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, fmt.Errorf("want an object, found %v", t)
	}
	members := make(map[string]json.RawMessage)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if _, twice := members[name]; twice || name == "" {
			return nil, fmt.Errorf("member %q: empty or there twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		members[name] = value
	}
	return members, nil
}
