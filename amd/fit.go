package amd

import (
	"math"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// Fit picks req.Count of n candidate devices of one node and says what is
// granted on each, or why it cannot be done. at fills in the i-th candidate; the
// best candidate is the last, as HAMi hands them over, and unless the policy
// compares connections the first that fit from that end are taken. Fit calls at
// once for each candidate at most, in no promised order, and keeps nothing of
// it; pol is the pod's, from ParsePolicy.
//
// A candidate is refused for the first of these that it fails: health, cordon,
// type, UUID, index, free shares, the mutex policy, quota, memory, CUs. A request
// or grant for a whole device needs one nobody uses. A hard partition is granted
// whole, and of those that would do the smallest is taken. Whether a set can be
// found does not depend on the candidates' order.
//
// The grants are in the order in which they were chosen. A request for nothing
// fits without grants. On refusal the grants are nil.
func (d *Devices) Fit(req Request, pol Policy, n int, at func(i int, u *Usage)) ([]annotations.Grant, Reasons) {
	if req.Count <= 0 {
		return nil, Reasons{}
	}
	f := d.scratch.Get().(*fitter)
	f.reset(d.rounding, req, &pol)
	chosen, reasons := f.run(n, at)
	var grants []annotations.Grant
	if !reasons.refused {
		grants = make([]annotations.Grant, len(chosen))
		for i := range chosen {
			grants[i] = chosen[i].grant()
		}
	}
	f.release()
	d.scratch.Put(f)
	return grants, reasons
}

// A candidate is a device that could serve the request, with what would be
// granted on it.
type candidate struct {
	id, typ string
	rank    int // 0 is the best by the order given
	mem     int32
	cus     int32
	hard    bool
	numa    int
	bdf     string
	peers   []string
}

func (c *candidate) grant() annotations.Grant {
	typ := c.typ
	if typ == "" {
		typ = Vendor // an empty type could not be read back
	}
	return annotations.Grant{UUID: c.id, Type: typ, MemoryMiB: c.mem, CUs: c.cus}
}

// fitter is the working memory of one Fit.
type fitter struct {
	rounding cumask.Rounding
	req      Request
	pol      *Policy
	reasons  Reasons

	u     Usage
	cands []candidate
	hards []candidate
	net   network
	score scorer

	// The CUs of the last geometry seen: devices of a node are mostly alike.
	geometry cumask.Geometry
	shares   int32
	geomCUs  int32
	// Likewise for the type filter.
	typ        string
	typAllowed bool
	typSeen    bool
}

func (f *fitter) reset(rounding cumask.Rounding, req Request, pol *Policy) {
	f.rounding, f.req, f.pol = rounding, req, pol
	f.reasons = Reasons{}
	f.cands, f.hards = f.cands[:0], f.hards[:0]
	f.geometry, f.geomCUs, f.shares = cumask.Geometry{}, 0, 0
	f.typSeen = false
}

// release drops the references to what the caller owns.
func (f *fitter) release() {
	f.pol = nil
	f.u = Usage{}
	clear(f.cands)
	clear(f.hards)
	clear(f.net.sites)
	f.typ = ""
}

func (f *fitter) run(n int, at func(i int, u *Usage)) ([]candidate, Reasons) {
	count := int(f.req.Count)
	f.reasons.cards = int32(n)
	if count > n {
		f.reasons.add(TooFewDevices, n)
		return nil, f.reasons
	}
	if !f.valid() {
		f.reasons.add(InsufficientCores, n)
		return nil, f.reasons
	}
	// Unless sets have to be compared, the first that fit are taken.
	connect := f.pol.Connected(f.req)
	greedy := !connect && f.pol.Quota == nil
	anyHard := false
	for i := n - 1; i >= 0; i-- {
		f.u = Usage{}
		at(i, &f.u)
		mem, cus, reason := f.check(&f.u)
		if reason != reasonCount {
			f.reasons.add(reason, 1)
			continue
		}
		c := candidate{id: f.u.ID, typ: f.u.Type, rank: n - 1 - i, mem: mem, cus: cus, hard: f.u.Hard()}
		if connect {
			c.numa, c.bdf, c.peers = f.u.NUMA, f.u.PCIBDF, f.u.XGMIPeers
		}
		anyHard = anyHard || c.hard
		f.cands = append(f.cands, c)
		if greedy && !anyHard && len(f.cands) == count {
			return f.cands, Reasons{}
		}
	}
	if len(f.cands) < count {
		if len(f.cands) > 0 {
			f.reasons.add(TooFewFit, len(f.cands))
		}
		return nil, f.reasons
	}
	if anyHard {
		f.smallestHardFirst()
	}
	return f.choose(count)
}

// valid refuses what Request never returns.
func (f *fitter) valid() bool {
	r := &f.req
	return r.Cores >= 0 && r.Cores <= 100 && r.MemoryMiB >= 0 && r.MemoryPercent >= 0 && r.MemoryPercent <= 100
}

// check returns what would be granted on the device, or the reason against it.
// The reason is reasonCount when there is none.
func (f *fitter) check(u *Usage) (mem, cus int32, _ Reason) {
	switch {
	case !u.Health:
		return 0, 0, Unhealthy
	case u.Cordoned:
		return 0, 0, Cordoned
	case !f.allowsType(u.Type):
		return 0, 0, TypeMismatch
	case !f.pol.allowsUUID(u.ID):
		return 0, 0, UUIDMismatch
	case !f.pol.allowsIndex(u.Index):
		return 0, 0, IndexMismatch
	case u.Used >= u.Count:
		return 0, 0, SharesExhausted
	case f.pol.Mutex && u.Used > 0:
		return 0, 0, NotIdle
	}
	mem = f.memory(u)
	if f.pol.Quota != nil && !f.pol.Quota(int64(mem)) {
		return 0, 0, QuotaExceeded
	}
	if u.MemoryMiB <= 0 || mem > u.MemoryMiB-max(u.UsedMiB, 0) {
		return 0, 0, InsufficientMemory
	}
	cus = f.cus(u, mem)
	if u.Geometry.CUs <= 0 || u.Geometry.CUs > math.MaxInt32 || cus < 0 || cus > int32(u.Geometry.CUs)-max(u.UsedCUs, 0) {
		return 0, 0, InsufficientCores
	}
	// Somebody may hold a share of nothing; a whole device is still not shared.
	if u.Used > 0 && mem == u.MemoryMiB && cus == int32(u.Geometry.CUs) {
		return 0, 0, InsufficientMemory
	}
	return mem, cus, reasonCount
}

func (f *fitter) allowsType(typ string) bool {
	if !f.typSeen || f.typ != typ {
		f.typ, f.typAllowed, f.typSeen = typ, f.pol.allowsType(typ), true
	}
	return f.typAllowed
}

// memory is the MiB that would be granted on the device; more than the device
// has when it is too small.
func (f *fitter) memory(u *Usage) int32 {
	mem := u.MemoryMiB
	switch {
	case f.req.MemoryMiB > 0:
		mem = f.req.MemoryMiB
	case f.req.MemoryPercent > 0:
		mem = max(int32(int64(u.MemoryMiB)*int64(f.req.MemoryPercent)/100), 1)
	}
	if u.Hard() {
		return max(mem, u.MemoryMiB)
	}
	return mem
}

// cus is the number of CUs that would be granted on the device, -1 when its
// geometry cannot be. All memory without CUs is a whole device, as in HAMi.
func (f *fitter) cus(u *Usage, mem int32) int32 {
	g := u.Geometry
	switch {
	case u.Hard(), f.req.Cores == 100, f.req.Cores == 0 && mem >= u.MemoryMiB:
		return int32(g.CUs)
	case f.req.Cores == 0:
		return 0
	}
	if g != f.geometry || u.Count != f.shares {
		f.geometry, f.shares, f.geomCUs = g, u.Count, -1
		if n, err := f.rounding.CUs(g, int(f.req.Cores), int(u.Count)); err == nil {
			f.geomCUs = int32(n)
		}
	}
	return f.geomCUs
}

// choose takes count of the candidates by the policy.
func (f *fitter) choose(count int) ([]candidate, Reasons) {
	chosen := f.cands[:count]
	if f.pol.Connected(f.req) {
		var ok bool
		if chosen, ok = f.connected(count); !ok {
			f.reasons.add(NUMAMismatch, len(f.cands))
			return nil, f.reasons
		}
	}
	if f.pol.Quota == nil || f.pol.Quota(total(chosen)) {
		return chosen, Reasons{}
	}
	if chosen = f.cheapest(count); f.pol.Quota(total(chosen)) {
		return chosen, Reasons{}
	}
	f.reasons.add(QuotaExceeded, len(f.cands))
	return nil, f.reasons
}

func total(chosen []candidate) int64 {
	var mem int64
	for i := range chosen {
		mem += int64(chosen[i].mem)
	}
	return mem
}
