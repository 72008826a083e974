package partition

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxSplitCount is the largest share count that is accepted. 64 GPUs with that
// many shares fill about two thirds of the 4 MiB a message to kubelet may have.
const MaxSplitCount = 1024

// RegisterOptions are a node's choices about what it offers. The zero value
// registers every GPU in cu mode.
type RegisterOptions struct {
	// Mode is the operating mode, cu if "".
	Mode OperatingMode
	// NodeName is the Kubernetes name of the node. It becomes part of the IDs
	// of GPUs without a serial number, which without it are unique on the
	// node but not in the cluster.
	NodeName string
	// SplitCount is how many containers may share one soft device; 0 chooses
	// per GPU, 2 on gfx12 and 10 otherwise. At most MaxSplitCount.
	SplitCount int
	// MemoryScaling multiplies the VRAM that is registered; 0 means 1. Above 1
	// the node promises more than it has.
	MemoryScaling float64
	// Exclude lists GPUs the node keeps for itself, by PCI address
	// ("0000:06:00.0") or DRM card ("card1"). Blank entries are ignored.
	Exclude []string
	// Naming decides about the resource names of partitions, single if "".
	Naming NamingStrategy

	// Unhealthy gives the reason for each GPU that some check found sick; all
	// devices of the GPU register as unhealthy. A GPU that is not named is
	// healthy as far as checks go.
	Unhealthy map[BDF]string
	// UnhealthyRenderMinors does the same for one render node, which is one
	// partition where partitions register.
	UnhealthyRenderMinors map[int]string
}

// Validate reports what is wrong with the options, whatever the hardware.
func (o RegisterOptions) Validate() error {
	switch {
	case o.Mode != "" && o.Mode != ModeCU && o.Mode != ModePartition:
		return fmt.Errorf("operating mode %s: want %q or %q", quoted(string(o.Mode)), ModeCU, ModePartition)
	case o.Naming != "" && o.Naming != NamingSingle && o.Naming != NamingMixed:
		return fmt.Errorf("resource naming strategy %s: want %q or %q", quoted(string(o.Naming)), NamingSingle, NamingMixed)
	case o.SplitCount < 0 || o.SplitCount > MaxSplitCount:
		return fmt.Errorf("split count %d: want 0 to %d", o.SplitCount, MaxSplitCount)
	case math.IsNaN(o.MemoryScaling) || math.IsInf(o.MemoryScaling, 0) || o.MemoryScaling < 0:
		return fmt.Errorf("memory scaling %v: want a number above 0", o.MemoryScaling)
	case !isNodeName(o.NodeName):
		return fmt.Errorf("node name %s: want a Kubernetes node name: lower-case letters, digits, \"-\" and \".\"", quoted(o.NodeName))
	}
	_, err := parseExclude(o.Exclude)
	return err
}

// splitCount is the share count of a soft device of the given GPU.
func (o RegisterOptions) splitCount(g *GPU) int {
	switch {
	case o.SplitCount > 0:
		return o.SplitCount
	case strings.HasPrefix(g.GFX, "gfx12"):
		return 2
	}
	return 10
}

// isNodeName accepts what Kubernetes does, a DNS subdomain, and "". It also
// keeps the separators of HAMi's annotations out of device IDs.
func isNodeName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// exclusion is one parsed entry of an exclude list: a PCI address or a card.
type exclusion struct {
	text string
	bdf  BDF // "" for a card
	card int
}

func parseExclude(entries []string) ([]exclusion, error) {
	var out []exclusion
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if digits, ok := strings.CutPrefix(entry, "card"); ok {
			// The kernel writes minors without sign, blanks or leading zeros.
			n, err := strconv.ParseUint(digits, 10, 31)
			if err != nil || strconv.FormatUint(n, 10) != digits {
				return nil, fmt.Errorf("exclude %s: want a DRM card such as \"card1\"", quoted(entry))
			}
			out = append(out, exclusion{text: entry, card: int(n)})
			continue
		}
		bdf, err := ParseBDF(strings.ToLower(entry))
		if err != nil {
			return nil, fmt.Errorf("exclude %s: want a PCI address such as \"0000:06:00.0\" or a DRM card such as \"card1\"", quoted(entry))
		}
		out = append(out, exclusion{text: entry, bdf: bdf})
	}
	return out, nil
}

// excluded finds the GPUs that a list of entries keeps out, and notes entries
// that name none: a GPU that was moved or died must not stop the others.
func excluded(gpus []GPU, entries []string) (map[BDF]bool, []string, error) {
	parsed, err := parseExclude(entries)
	if err != nil {
		return nil, nil, err
	}
	out := make(map[BDF]bool)
	var notes []string
	for _, e := range parsed {
		found := false
		for i := range gpus {
			g := &gpus[i]
			match, partition := e.matches(g)
			if !match {
				continue
			}
			found = true
			out[g.BDF] = true
			if partition {
				notes = append(notes, fmt.Sprintf("exclude %s: a partition of %s, which is excluded as a whole", quoted(e.text), g.BDF))
			}
		}
		if !found {
			notes = append(notes, fmt.Sprintf("exclude %s: no such GPU on this node", quoted(e.text)))
		}
	}
	return out, notes, nil
}

// matches reports whether the entry names the GPU, and whether it does so by
// the card of one of its partitions.
func (e exclusion) matches(g *GPU) (match, partition bool) {
	if e.bdf != "" {
		return e.bdf == g.BDF, false
	}
	if g.Card != nil && *g.Card == e.card {
		return true, false
	}
	for i := range g.Nodes {
		if c := g.Nodes[i].Card; c != nil && *c == e.card {
			return true, true
		}
	}
	return false, false
}
