package cumask

import "testing"

func TestDivider(t *testing.T) {
	for by := 1; by <= MaxCUs; by++ {
		d := newDivider(by)
		for n := range MaxCUs + 1 {
			if q, r := d.divide(n); q != n/by || r != n%by {
				t.Fatalf("%d by %d is %d rest %d", n, by, q, r)
			}
		}
	}
}
