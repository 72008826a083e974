package cumask

const evenBits = 0x5555555555555555

// pairsToUnits returns the WGPs whose two CUs are both in s: unit k for the CUs
// 2k and 2k+1.
func pairsToUnits(s Set) Set {
	var units Set
	for i, w := range s.w {
		w &= w >> 1 & evenBits
		w = (w | w>>1) & 0x3333333333333333
		w = (w | w>>2) & 0x0f0f0f0f0f0f0f0f
		w = (w | w>>4) & 0x00ff00ff00ff00ff
		w = (w | w>>8) & 0x0000ffff0000ffff
		w = (w | w>>16) & 0x00000000ffffffff
		units.w[i/2] |= w << (i % 2 * 32)
	}
	return units
}

// unitsToPairs returns the CUs of the WGPs in units, of which a Set holds the
// lower half.
func unitsToPairs(units Set) Set {
	var s Set
	for i := range s.w {
		w := units.w[i/2] >> (i % 2 * 32) & 0x00000000ffffffff
		w = (w | w<<16) & 0x0000ffff0000ffff
		w = (w | w<<8) & 0x00ff00ff00ff00ff
		w = (w | w<<4) & 0x0f0f0f0f0f0f0f0f
		w = (w | w<<2) & 0x3333333333333333
		w = (w | w<<1) & evenBits
		s.w[i] = w | w<<1
	}
	return s
}
