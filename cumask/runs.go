package cumask

import "math/bits"

// runs is the maximal runs of a set, ascending, and chained by the number of
// binary digits of their lengths. Taking the chains from the longest down is
// close to taking runs by length, and costs no sorting.
type runs struct {
	n       int
	lo, len [MaxCUs / 2]uint16
	next    [MaxCUs / 2]int16   // the next run of the chain, -1 at its end
	first   [lengthDigits]int16 // the first run of each chain, -1 for none
}

// lengthDigits is one more than the binary digits of the longest run.
const lengthDigits = 12

// collect finds the runs of a set that has nothing at or above end.
func (r *runs) collect(s *Set, end int) {
	r.n = 0
	w := s.w[:(end+wordBits-1)/wordBits]
	var last uint64 // the top bit of the word before
	for i, w := range w {
		for begins := w &^ (w<<1 | last); begins != 0; begins &= begins - 1 {
			r.lo[r.n] = uint16(i*wordBits + bits.TrailingZeros64(begins))
			r.n++
		}
		last = w >> (wordBits - 1)
	}
	n := 0
	for i, w := range w {
		var next uint64 // the lowest bit of the word after
		if i+1 < len(s.w) {
			next = s.w[i+1] << (wordBits - 1)
		}
		for ends := w &^ (w>>1 | next); ends != 0; ends &= ends - 1 {
			r.len[n] = uint16(i*wordBits+bits.TrailingZeros64(ends)) - r.lo[n] + 1
			n++
		}
	}
}

// chain orders the runs for taking n units, and returns the shortest run that
// holds them all, the lowest of several, or -1.
func (r *runs) chain(n int) (fit int) {
	fit = -1
	for i := range r.first {
		r.first[i] = -1
	}
	for i := r.n - 1; i >= 0; i-- {
		digits := bits.Len16(r.len[i])
		r.next[i], r.first[digits] = r.first[digits], int16(i)
		if int(r.len[i]) >= n && (fit < 0 || r.len[i] <= r.len[fit]) {
			fit = i
		}
	}
	return fit
}

// take selects n free units with at least low of them on each XCC, and returns
// them as CUs. The caller has made sure that they are there.
func (p *packer) take(n, low int) Set {
	p.setQuotas(n, low)
	var out Set
	fit := p.runs.chain(n)
	if fit >= 0 {
		n -= p.takeRun(fit, n, &out)
	}
	for digits := lengthDigits - 1; digits > 0 && n > 0; digits-- {
		for run := int(p.runs.first[digits]); run >= 0 && n > 0; run = int(p.runs.next[run]) {
			if run != fit {
				n -= p.takeRun(run, n, &out)
			}
		}
	}
	if p.wgp == 2 {
		return unitsToPairs(out)
	}
	return out
}

// takeRun adds to out what the quotas allow of a run, until they are met by n
// units, and returns how many units that is.
func (p *packer) takeRun(run, n int, out *Set) int {
	taken, quota, open := 0, p.quota, p.open[:len(p.quota)]
	unit, end := int(p.runs.lo[run]), int(p.runs.lo[run]+p.runs.len[run])
	_, c := p.byClass.divide(unit)
	for unit < end && taken < n {
		word, stop := unit/wordBits, min(end, (unit|(wordBits-1))+1)
		// No branch on the quota: it would be guessed wrong half the time.
		var got, more uint64
		for bit := uint64(1) << (unit % wordBits); unit < stop; unit++ {
			if c >= len(quota) {
				c = 0
			}
			mask := -int64(quota[c]) >> 63 // all ones while there is quota left
			quota[c] += int32(mask)
			got |= bit & uint64(mask)
			more |= bit &^ uint64(mask) & uint64(open[c])
			bit <<= 1
			c++
		}
		for ; more != 0; more &= more - 1 {
			bit := bits.TrailingZeros64(more)
			if _, c := p.byClass.divide(word*wordBits + bit); p.spend(c) {
				got |= 1 << bit
			}
		}
		out.w[word] |= got
		taken += bits.OnesCount64(got)
	}
	return taken
}

// spend closes class c, which is open, and reports whether it may give one unit
// on top of its quota. If it may not now it never may.
func (p *packer) spend(c int) bool {
	if p.open[c] == 0 {
		return false
	}
	p.open[c] = 0
	x := c % p.xccs
	if p.spare[x] > 0 {
		p.spare[x]--
		return true
	}
	if p.extra > 0 && p.openX.Has(x) {
		p.extra--
		p.openX.drop(x)
		return true
	}
	return false
}
