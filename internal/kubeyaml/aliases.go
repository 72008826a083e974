package kubeyaml

import (
	"bytes"
	"fmt"

	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// maxExpanded is how many bytes a YAML document may have with its aliases
// written out.
const maxExpanded = 64 << 20

// CheckAliases refuses a YAML document that is small only because it repeats
// itself: "a: &a <100 kB>" and ten thousand "*a" are a gigabyte of JSON. The
// parser bounds how many values aliases may stand for, and not how large these
// are. Broken syntax is left to whoever reads the document.
func CheckAliases(document []byte) error {
	if bytes.IndexByte(document, '&') < 0 || bytes.IndexByte(document, '*') < 0 {
		return nil
	}
	var tree any
	if err := goyaml.Unmarshal(document, &tree); err != nil {
		return nil
	}
	if left := spend(maxExpanded, tree); left < 0 {
		return fmt.Errorf("aliases make more than %d MiB of it", maxExpanded>>20)
	}
	return nil
}

// spend takes the size of a value off a budget and stops below zero.
func spend(budget int, value any) int {
	const punctuation = 4
	budget -= punctuation
	switch v := value.(type) {
	case string:
		return budget - len(v)
	case []any:
		for i := 0; i < len(v) && budget >= 0; i++ {
			budget = spend(budget, v[i])
		}
	case map[any]any:
		for key, member := range v {
			if budget < 0 {
				break
			}
			budget = spend(spend(budget, key), member)
		}
	}
	return budget
}
