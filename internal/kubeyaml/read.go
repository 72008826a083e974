package kubeyaml

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// MaxBytes is the largest input Read accepts. The pods of a cluster of a
// thousand GPUs print to some ten MiB.
const MaxBytes = 256 << 20

// maxYAML is the largest document that is YAML and not JSON, which takes some
// fifty times its size in memory to read.
const maxYAML = 32 << 20

// maxDepth bounds lists inside lists.
const maxDepth = 4

// Objects are the nodes and pods of one input, in its order.
type Objects struct {
	Nodes []corev1.Node
	Pods  []corev1.Pod
	// Skipped says which objects were left out and why: those of another kind
	// and those that are not what their kind should be.
	Skipped []error
}

// ReadFile reads the file at path, or standard input if path is "-".
func ReadFile(path string, stdin io.Reader) (*Objects, error) {
	if path == "-" {
		return Read(stdin)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

// Read reads all documents of r. Broken syntax is an error, since an answer
// from half a cluster would be wrong; a broken object is skipped.
func Read(r io.Reader) (*Objects, error) { return read(r, MaxBytes) }

func read(r io.Reader, most int64) (*Objects, error) {
	limited := &io.LimitedReader{R: r, N: most + 1}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(limited))
	var o Objects
	for n := 1; ; n++ {
		document, err := documents.Read()
		if limited.N <= 0 {
			return nil, fmt.Errorf("input is larger than %d bytes", most)
		}
		if errors.Is(err, io.EOF) {
			return &o, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if err := o.addDocument(document); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func (o *Objects) addDocument(document []byte) error {
	raw := bytes.TrimSpace(document)
	if len(raw) == 0 {
		return nil
	}
	if raw[0] != '{' || !json.Valid(raw) {
		if len(raw) > maxYAML {
			return fmt.Errorf("YAML of %d MiB, want at most %d: print it as JSON (-o json), or in several documents", len(raw)>>20, maxYAML>>20)
		}
		err := CheckAliases(raw)
		if err != nil {
			return err
		}
		if raw, err = yaml.YAMLToJSONStrict(raw); err != nil {
			return fmt.Errorf("not YAML or JSON: %w", oneLine(err))
		}
	}
	if bytes.Equal(raw, []byte("null")) { // comments only
		return nil
	}
	o.add(raw, "", 0)
	return nil
}

// add takes one object. Items of a NodeList or PodList may leave out their
// kind; defaultKind is then theirs.
func (o *Objects) add(raw json.RawMessage, defaultKind string, depth int) {
	var head struct {
		Kind     string            `json:"kind"`
		Items    []json.RawMessage `json:"items"`
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	err := decode(raw, &head)
	if err == nil && bytes.Equal(raw, []byte("null")) {
		err = errors.New("null")
	}
	if err != nil {
		o.skip("item", "", "", fmt.Errorf("not a Kubernetes object: %w", err))
		return
	}
	kind := head.Kind
	if kind == "" {
		kind = defaultKind
	}
	switch kind {
	case "Node":
		var node corev1.Node
		if err = decodeObject(raw, &node); err == nil {
			o.Nodes = append(o.Nodes, node)
		}
	case "Pod":
		var pod corev1.Pod
		if err = decodeObject(raw, &pod); err == nil {
			o.Pods = append(o.Pods, pod)
		}
	case "List", "NodeList", "PodList":
		if depth == maxDepth {
			err = fmt.Errorf("lists are nested more than %d deep", maxDepth)
			break
		}
		for _, item := range head.Items {
			o.add(item, strings.TrimSuffix(kind, "List"), depth+1)
		}
	default:
		err = errors.New("want a Node, a Pod or a list of them")
	}
	if err != nil {
		o.skip(kind, head.Metadata.Namespace, head.Metadata.Name, err)
	}
}

func decodeObject(raw json.RawMessage, into any) error {
	if err := checkQuantities(raw); err != nil {
		return err
	}
	return decode(raw, into)
}

// decode reads a value, or says where it is not what it should be: in the
// terms of JSON, where encoding/json tells of Go's types.
func decode(raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	if shape, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("want %s, found a JSON %s", wanted(shape.Type.Kind()), shape.Value)
		if shape.Field != "" {
			err = fmt.Errorf("%s: %w", shape.Field, err)
		}
	}
	return err
}

func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	}
	return "a number"
}

func (o *Objects) skip(kind, namespace, name string, err error) {
	if kind == "" {
		kind = "object without kind"
	}
	switch {
	case namespace != "":
		err = fmt.Errorf("%s %q: %w", kind, namespace+"/"+name, err)
	case name != "":
		err = fmt.Errorf("%s %q: %w", kind, name, err)
	default:
		err = fmt.Errorf("%s: %w", kind, err)
	}
	o.Skipped = append(o.Skipped, err)
}

// oneLine joins the lines of the YAML parser's longer messages.
func oneLine(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
