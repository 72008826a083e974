package draw

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/inspect"
)

// Limits on text that others have written, in characters.
const (
	maxName   = 120
	maxDetail = 600
)

// plain replaces what is not printable in a name, and shortens what is too
// long. Characters that turn the writing around are not printable either.
func plain(s string) string { return printable(s, maxName) }

// prose is plain for a sentence.
func prose(s string) string { return printable(s, maxDetail) }

func printable(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	runes := []rune(strings.ToValidUTF8(s, "?"))
	if len(runes) > limit {
		runes = append(runes[:limit-3], '.', '.', '.')
	}
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	return string(runes)
}

// podName is a pod as kubectl's users name it.
func (h *holding) podName() string { return plain(h.Namespace) + "/" + plain(h.Pod) }

// role is the container with what is special about it.
func (h *holding) role() string {
	name := plain(h.Container)
	switch {
	case h.Init:
		name += " (init)"
	case h.Sidecar:
		name += " (sidecar)"
	}
	return name
}

// mask says which CUs a holding has.
func (h *holding) mask() string {
	switch {
	case h.Whole:
		return "whole"
	case !h.Mask.Empty():
		return h.Mask.String()
	case h.CUs == 0:
		return "memory only"
	case len(h.problems) > 0:
		return "no mask"
	}
	return "no mask yet"
}

// perXCC is how many CUs of the mask each XCC has, "" where there is one.
func (h *holding) perXCC() string {
	geometry := h.part.Geometry
	if h.part.fault != "" || geometry.XCCs < 2 || h.cus().Empty() {
		return ""
	}
	var b strings.Builder
	for i, n := range geometry.Spread(h.cus()).PerXCC {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

func ranges(cus []int) string { return cumask.Of(cus...).String() }

// decimal writes a number with its thousands apart.
func decimal(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	var b strings.Builder
	b.WriteString(s[:len(s)-len(digits)])
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// percent is a part of a whole, rounded down so that 100 is all of it.
func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return part * 100 / whole
}

// gibOf is a part of some memory in whole GiB, or in TiB with a digit behind the
// point where it is much.
func gibOf(part, whole int64) string {
	if whole < 10<<20 {
		return decimal((part+1<<9)>>10) + " of " + decimal((whole+1<<9)>>10) + " GiB"
	}
	tib := func(mib int64) string {
		tenths := (mib*10 + 1<<19) >> 20
		return decimal(tenths/10) + "." + strconv.FormatInt(tenths%10, 10)
	}
	return tib(part) + " of " + tib(whole) + " TiB"
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return decimal(int64(n)) + " " + noun
}

// location says where a problem is, in the words of its list.
func (p *problem) location() string {
	var parts []string
	if p.node != nil {
		parts = append(parts, plain(p.node.Name))
	} else if p.Node != "" {
		parts = append(parts, plain(p.Node))
	}
	if p.card != nil {
		parts = append(parts, p.card.name())
	} else if p.GPU != "" {
		parts = append(parts, "device "+plain(p.GPU))
	}
	if p.Pod != "" {
		pod := plain(p.Namespace) + "/" + plain(p.Pod)
		if p.Container != "" {
			pod += " " + plain(p.Container)
		}
		parts = append(parts, pod)
	}
	return cmp.Or(strings.Join(parts, ", "), "cluster")
}

// shares are how many containers share a card.
func (c *card) shares() string {
	if c.partitioned() {
		return strconv.Itoa(c.sum.used) + " of " + plural(len(c.parts), "partition")
	}
	return strconv.Itoa(c.sum.used) + " of " + plural(c.sum.shares, "share")
}

// lostWords are a holding of a GPU that its node does not have.
func lostWords(t *inspect.Tenant) string {
	return fmt.Sprintf("%s/%s %s: %d CUs and %d MiB of %s, which is not registered",
		plain(t.Namespace), plain(t.Pod), plain(t.Container), t.CUs, t.MemoryMiB, plain(t.Device))
}

// wrap breaks a sentence into lines of at most width characters.
func wrap(sentence string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(sentence) {
		if line != "" && utf8.RuneCountInString(line+" "+word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
