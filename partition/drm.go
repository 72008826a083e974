package partition

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// pciTree is what sysfs says about PCI functions, apart from their attributes.
type pciTree struct {
	t *tree
	// listed are the functions of bus/pci/devices; nil where that is missing.
	listed map[BDF]bool
	// cards are device folders found through class/drm, for trees that lack
	// bus/pci; filled only there.
	cards map[BDF]string
	// bound are the functions that amdgpu drives, ascending.
	bound []BDF
	drm   map[BDF]drmMinors // as read so far
}

// drmMinors are the DRM devices of a PCI function, from the names in its drm
// folder.
type drmMinors struct {
	card    *int
	renders []int
}

func readPCI(t *tree) (*pciTree, error) {
	p := &pciTree{t: t, drm: map[BDF]drmMinors{}}
	names, err := t.names("bus/pci/devices")
	switch {
	case err == nil:
		p.listed = map[BDF]bool{}
		for _, bdf := range bdfNames(names) {
			p.listed[bdf] = true
		}
	case !isAbsent(err):
		return nil, fmt.Errorf("list pci functions: %w", err)
	}
	for _, dir := range [...]string{"bus/pci/drivers/amdgpu", "module/amdgpu/drivers/pci:amdgpu"} {
		if names, err = t.names(dir); err == nil {
			p.bound = bdfNames(names)
			return p, nil
		}
	}
	if err := p.scanCards(); err != nil {
		return nil, err
	}
	return p, nil
}

// bdfNames keeps the names that are PCI addresses as the kernel spells them; a
// driver's folder has bind, unbind, uevent and more beside them.
func bdfNames(names []string) []BDF {
	var out []BDF
	for _, s := range names {
		if a, ok := splitBDF(s); ok && string(formatBDF(a)) == s {
			out = append(out, BDF(s))
		}
	}
	sortBDFs(out)
	return out
}

// scanCards finds amdgpu's functions through class/drm, where connectors,
// render nodes and cards of other drivers stand too.
func (p *pciTree) scanCards() error {
	names, err := p.t.names("class/drm")
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list drm devices: %w", err)
	}
	p.cards = map[BDF]string{}
	for _, name := range names {
		if _, ok := minorOf(name, "card"); !ok {
			continue
		}
		device := "class/drm/" + name + "/device"
		driver, err := p.t.readlink(device + "/driver")
		if err != nil || path.Base(driver) != "amdgpu" {
			continue
		}
		if bdf := p.slot(device); bdf != "" {
			p.cards[bdf] = device
			p.bound = append(p.bound, bdf)
		}
	}
	sortBDFs(p.bound)
	return nil
}

// slot is the PCI address of a device folder: the name its link leads to, else
// PCI_SLOT_NAME of its uevent.
func (p *pciTree) slot(device string) BDF {
	if target, err := p.t.readlink(device); err == nil {
		if names := bdfNames([]string{path.Base(target)}); len(names) == 1 {
			return names[0]
		}
	}
	uevent, err := p.t.read(device + "/uevent")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(uevent, "\n") {
		if value, ok := strings.CutPrefix(line, "PCI_SLOT_NAME="); ok {
			if names := bdfNames([]string{value}); len(names) == 1 {
				return names[0]
			}
		}
	}
	return ""
}

// path is where the attributes of a function are.
func (p *pciTree) path(bdf BDF) string {
	if dir, ok := p.cards[bdf]; ok && !p.listed[bdf] {
		return dir
	}
	return "bus/pci/devices/" + string(bdf)
}

// folder opens a function. Without one it returns nil and no error: a capture
// may hold KFD alone.
func (p *pciTree) folder(bdf BDF) (*folder, error) {
	f, err := p.t.folder(p.path(bdf))
	if isAbsent(err) && !p.listed[bdf] {
		return nil, nil
	}
	return f, err
}

// isGPU reports whether a PCI function with this address is there and is the
// given AMD part. The sound device of a Radeon has an address that a partition
// could have, and so has a virtual function, which is a GPU of its own.
func (p *pciTree) isGPU(bdf BDF, device uint16) bool {
	if _, ok := p.cards[bdf]; !ok && !p.listed[bdf] {
		return false
	}
	f, err := p.folder(bdf)
	if f == nil || err != nil {
		return false
	}
	defer f.close()
	vendor, ok1 := f.number("vendor", 16, 16)
	found, ok2 := f.number("device", 16, 16)
	return ok1 && ok2 && vendor == vendorAMD && uint16(found) == device
}

// minors lists the DRM devices of a function.
func (p *pciTree) minors(bdf BDF) drmMinors {
	if m, ok := p.drm[bdf]; ok {
		return m
	}
	var m drmMinors
	if f, err := p.folder(bdf); err == nil && f != nil {
		m = readMinors(f)
		f.close()
	}
	p.drm[bdf] = m
	return m
}

// readMinors lists the drm folder of a device.
func readMinors(device *folder) drmMinors {
	var m drmMinors
	drm, err := device.sub("drm")
	if err != nil {
		return m
	}
	defer drm.close()
	names, err := drm.names()
	if err != nil {
		return m
	}
	for _, name := range names {
		if n, ok := minorOf(name, "card"); ok && (m.card == nil || n < *m.card) {
			m.card = &n
		}
		if n, ok := minorOf(name, "renderD"); ok {
			m.renders = append(m.renders, n)
		}
	}
	return m
}

// minorOf reads "card3" and "renderD128", and not "card0-DP-1".
func minorOf(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	n, ok := canonicalInt(digits)
	return n, ok && n <= maxRenderMinor
}

// minorOwner is the device a render minor belongs to.
type minorOwner struct {
	bdf       BDF // "" for an XCP device, which names no parent
	card      *int
	ambiguous bool // two devices claim the minor
}

// owners maps render minors to devices: those of the given PCI functions, and
// those of the XCP platform devices, which stand for compute partitions.
func (p *pciTree) owners(functions []BDF) map[int]minorOwner {
	out := map[int]minorOwner{}
	claim := func(minors drmMinors, bdf BDF) {
		for _, m := range minors.renders {
			_, taken := out[m]
			out[m] = minorOwner{bdf: bdf, card: minors.card, ambiguous: taken}
		}
	}
	for _, bdf := range functions {
		claim(p.minors(bdf), bdf)
	}
	for _, minors := range p.xcpMinors() {
		claim(minors, "")
	}
	return out
}

// xcpMinors reads the DRM devices of each XCP platform device.
func (p *pciTree) xcpMinors() []drmMinors {
	platform, err := p.t.folder("devices/platform")
	if err != nil {
		return nil
	}
	defer platform.close()
	names, err := platform.names()
	if err != nil {
		return nil
	}
	var out []drmMinors
	for _, name := range names {
		if !isXCP(name) {
			continue
		}
		if f, err := platform.sub(name); err == nil {
			out = append(out, readMinors(f))
			f.close()
		}
	}
	return out
}

// isXCP recognises amdgpu_xcp_30, and amdgpu_xcp.30 as some drivers name it.
func isXCP(name string) bool {
	number, ok := strings.CutPrefix(name, "amdgpu_xcp")
	if !ok || number == "" || number[0] != '_' && number[0] != '.' {
		return false
	}
	_, ok = canonicalInt(number[1:])
	return ok
}

// cardBeside finds the card of a render minor through class/drm, for a device
// that neither a PCI function nor a platform device names.
func (p *pciTree) cardBeside(minor int) (*int, BDF) {
	device := "class/drm/renderD" + strconv.Itoa(minor) + "/device"
	f, err := p.t.folder(device)
	if err != nil {
		return nil, ""
	}
	defer f.close()
	return readMinors(f).card, p.slot(device)
}
