package amd

import (
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// Fit picks req.Count of n candidate devices of one node and says what is
// granted on each, or why it cannot be done. at fills in the i-th candidate; the
// best candidate is the last, as HAMi hands them over, and unless the policy
// compares connections the first that fit from that end are taken. For no
// candidate is at called twice, and their order is not promised; nothing of a
// Usage is kept. pol is the pod's, from ParsePolicy.
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
	f.own, f.at, f.typSeen = pol, at, false
	f.reset(d.rounding, req, &f.own)
	var grants []annotations.Grant
	if chosen := f.run(n); len(chosen) > 0 {
		grants = make([]annotations.Grant, len(chosen))
		copy(grants, chosen)
	}
	reasons := f.reasons
	f.own.Quota, f.at = nil, nil
	d.scratch.Put(f)
	return grants, reasons
}

// A candidate is a device that could serve the request, with what would be
// granted on it.
type candidate struct {
	annotations.Grant
	at    int32 // place among those Fit was given
	size  int32 // of a hard one: 0 is the smallest size there is, see sizes
	rank  int   // 0 is the best by the order given
	hard  bool
	numa  int
	bdf   string
	peers []string
}

// fitter is the working memory of one Fit.
type fitter struct {
	rounding cumask.Rounding
	req      Request
	pol      *Policy
	reasons  Reasons

	// The candidates: filled in by at, or where that is nil those of usage in
	// the order of ranks.
	at    func(i int, u *Usage)
	u     Usage
	usage []Usage
	ranks []ranked

	own     Policy // pol of a Fit
	cands   []candidate
	hards   []candidate
	grants  []annotations.Grant
	chosen  []int32 // the candidates behind the grants
	net     network
	score   scorer
	percent percentCache

	// The answer of the type filter for the last type: devices of a node are
	// mostly alike.
	typ                 string
	typSeen, typAllowed bool
}

// percentCache is the last percentage counted out.
type percentCache struct {
	percent, cus, xccs, perWGP, shares int32
	granted                            int32
}

func (f *fitter) reset(rounding cumask.Rounding, req Request, pol *Policy) {
	f.rounding, f.req, f.pol = rounding, req, pol
	f.reasons = Reasons{}
}

// candidate looks at the i-th candidate.
func (f *fitter) candidate(i int) *Usage {
	if f.at == nil {
		return &f.usage[f.ranks[i].device]
	}
	f.u = Usage{}
	f.at(i, &f.u)
	return &f.u
}

// run returns the grants, which are overwritten by the next run, or nil and
// leaves the reasons in f.reasons.
func (f *fitter) run(n int) []annotations.Grant {
	count, n := int(f.req.Count), max(n, 0)
	f.reasons.cards = int32(n)
	switch {
	case count > n:
		f.reasons.add(TooFewDevices, n)
		return nil
	case !f.valid():
		f.reasons.add(InsufficientCores, n)
		return nil
	}
	// Unless sets have to be compared the first that fit will do.
	greedy := !f.pol.Connected(f.req) && f.pol.Quota == nil
	if f.collect(count, n, greedy); len(f.cands) < count {
		if len(f.cands) > 0 {
			f.reasons.add(TooFewFit, len(f.cands))
		}
		return nil
	}
	chosen := f.choose(count)
	if chosen == nil {
		return nil
	}
	f.grants, f.chosen = f.grants[:0], f.chosen[:0]
	for i := range chosen {
		f.grants = append(f.grants, chosen[i].Grant)
		f.chosen = append(f.chosen, chosen[i].at)
	}
	f.reasons = Reasons{}
	return f.grants
}

// valid refuses what Request never returns.
func (f *fitter) valid() bool {
	r := &f.req
	return r.Cores >= 0 && r.Cores <= 100 && r.MemoryMiB >= 0 && r.MemoryPercent >= 0 && r.MemoryPercent <= 100
}

// collect finds the devices that could serve the request. A greedy search is
// done with the first that are enough, but for a hard one: then all have to be
// seen to find the smallest.
func (f *fitter) collect(count, n int, greedy bool) {
	f.cands, f.hards = f.cands[:0], f.hards[:0]
	for i := n - 1; i >= 0; i-- {
		u := f.candidate(i)
		mem, cus, reason := f.check(u)
		if reason != fits {
			f.reasons.add(reason, 1)
			continue
		}
		f.cands = append(f.cands, candidate{
			Grant: grant(u, mem, cus), at: int32(i), rank: n - 1 - i, hard: u.Hard(),
			numa: u.NUMA, bdf: u.PCIBDF, peers: u.XGMIPeers,
		})
		greedy = greedy && !u.Hard()
		if greedy && len(f.cands) == count {
			return
		}
	}
}

func grant(u *Usage, mem, cus int32) annotations.Grant {
	typ := u.Type
	if typ == "" {
		typ = Vendor // an empty type could not be read back
	}
	return annotations.Grant{UUID: u.ID, Type: typ, MemoryMiB: mem, CUs: cus}
}

// check returns what would be granted on the device, or the reason against it.
func (f *fitter) check(u *Usage) (mem, cus int32, _ Reason) {
	switch {
	case !u.Health:
		return 0, 0, Unhealthy
	case u.Cordoned:
		return 0, 0, Cordoned
	case f.pol.filters && !f.allowsType(u.Type):
		return 0, 0, TypeMismatch
	case f.pol.filters && !f.pol.allowsUUID(u.ID):
		return 0, 0, UUIDMismatch
	case f.pol.filters && !f.pol.allowsIndex(u.Index):
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
	if u.CUs <= 0 || cus < 0 || cus > u.CUs-max(u.UsedCUs, 0) {
		return 0, 0, InsufficientCores
	}
	// Somebody may hold a share of nothing; a whole device is still not shared.
	if u.Used > 0 && mem == u.MemoryMiB && cus == u.CUs {
		return 0, 0, InsufficientMemory
	}
	return mem, cus, fits
}

func (f *fitter) allowsType(typ string) bool {
	if !f.typSeen || f.typ != typ {
		f.typ, f.typSeen, f.typAllowed = typ, true, f.pol.allowsType(typ)
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
	switch {
	case f.req.Cores == 100, u.Hard(), f.req.Cores == 0 && mem >= u.MemoryMiB:
		return u.CUs
	case f.req.Cores == 0:
		return 0
	}
	p := &f.percent
	if f.req.Cores != p.percent || u.CUs != p.cus || u.XCCs != p.xccs || u.CUsPerWGP != p.perWGP || u.Count != p.shares {
		*p = percentCache{percent: f.req.Cores, cus: u.CUs, xccs: u.XCCs, perWGP: u.CUsPerWGP, shares: u.Count, granted: -1}
		if n, err := f.rounding.CUs(u.Geometry(), int(f.req.Cores), int(u.Count)); err == nil {
			p.granted = int32(n)
		}
	}
	return p.granted
}

// choose takes count of the candidates by the policy, nil when no choice will do.
func (f *fitter) choose(count int) []candidate {
	f.smallestHardFirst()
	chosen := f.cands[:count]
	if f.pol.Connected(f.req) {
		if chosen = f.connected(count); chosen == nil {
			f.reasons.add(NUMAMismatch, len(f.cands))
			return nil
		}
	}
	if f.pol.Quota == nil || f.pol.Quota(total(chosen)) {
		return chosen
	}
	if chosen = f.cheapest(count); chosen != nil && f.pol.Quota(total(chosen)) {
		return chosen
	}
	f.reasons.add(QuotaExceeded, len(f.cands))
	return nil
}

func total(chosen []candidate) int64 {
	var mem int64
	for i := range chosen {
		mem += int64(chosen[i].MemoryMiB)
	}
	return mem
}
