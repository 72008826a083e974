package partition

import (
	"fmt"
	"reflect"
	"slices"
)

// A ChangeKind is a way in which what a node offers can change.
type ChangeKind string

// The kinds of change.
const (
	Appeared      ChangeKind = "appeared"
	Vanished      ChangeKind = "vanished"
	ModeChanged   ChangeKind = "mode changed"
	HealthChanged ChangeKind = "health changed"
	// Altered is any other change of what is registered, such as VRAM, CUs,
	// shares or profiles.
	Altered ChangeKind = "altered"
)

// A Change is one difference between two registrations.
type Change struct {
	Kind ChangeKind
	BDF  BDF
	// Device is the ID of the device concerned, "" where a GPU changed its mode
	// and with it all its devices.
	Device string
	// From and To are the modes, or the reasons for being unhealthy with ""
	// for healthy; empty for other kinds.
	From, To string
}

// String is the change in one line, for a log.
func (c Change) String() string {
	switch c.Kind {
	case ModeChanged:
		return fmt.Sprintf("GPU %s: mode changed from %s to %s", c.BDF, orSoft(c.From), orSoft(c.To))
	case HealthChanged:
		if c.To == "" {
			return fmt.Sprintf("device %s (GPU %s): healthy again", c.Device, c.BDF)
		}
		return fmt.Sprintf("device %s (GPU %s): unhealthy: %s", c.Device, c.BDF, c.To)
	}
	return fmt.Sprintf("device %s (GPU %s): %s", c.Device, c.BDF, c.Kind)
}

func orSoft(mode string) string {
	if mode == "" {
		return "shared by CUs"
	}
	return mode
}

// Diff lists what changed between two registrations, in the order of before
// and then of after. A GPU whose mode changed gives one ModeChanged, followed
// by Vanished and Appeared for the devices whose IDs are not on both sides.
func Diff(before, after []Registered) []Change {
	was, now := index(before), index(after)
	modeOf := make(map[BDF]string, len(before))
	for i := range before {
		modeOf[before[i].GPU.BDF] = before[i].Mode
	}
	changed := make(map[BDF]bool)
	var out []Change
	for i := range after {
		d := &after[i]
		if mode, ok := modeOf[d.GPU.BDF]; ok && mode != d.Mode && !changed[d.GPU.BDF] {
			changed[d.GPU.BDF] = true
			out = append(out, Change{Kind: ModeChanged, BDF: d.GPU.BDF, From: mode, To: d.Mode})
		}
	}
	for i := range before {
		if d := &before[i]; now[d.ID] == nil {
			out = append(out, Change{Kind: Vanished, BDF: d.GPU.BDF, Device: d.ID})
		}
	}
	for i := range after {
		d := &after[i]
		old := was[d.ID]
		if old == nil {
			out = append(out, Change{Kind: Appeared, BDF: d.GPU.BDF, Device: d.ID})
			continue
		}
		if old.Unhealthy != d.Unhealthy {
			out = append(out, Change{Kind: HealthChanged, BDF: d.GPU.BDF, Device: d.ID, From: old.Unhealthy, To: d.Unhealthy})
		}
		if !changed[d.GPU.BDF] && !sameOffer(old, d) {
			out = append(out, Change{Kind: Altered, BDF: d.GPU.BDF, Device: d.ID})
		}
	}
	return out
}

func index(devices []Registered) map[string]*Registered {
	out := make(map[string]*Registered, len(devices))
	for i := range devices {
		out[devices[i].ID] = &devices[i]
	}
	return out
}

// sameOffer compares what two registrations of one device offer, health apart.
// KFD node numbers and ranks are left out: every switch of another GPU moves
// them.
func sameOffer(a, b *Registered) bool {
	x, y := a.Device, b.Device
	x.Health, y.Health = false, false
	return a.Hard == b.Hard && a.Resource == b.Resource && a.Partition == b.Partition &&
		slices.Equal(a.KubeletIDs, b.KubeletIDs) &&
		slices.EqualFunc(a.Nodes, b.Nodes, func(m, n Node) bool { return m.RenderMinor == n.RenderMinor && m.UniqueID == n.UniqueID }) &&
		reflect.DeepEqual(x, y)
}
