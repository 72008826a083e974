package cumask_test

import (
	"errors"
	"fmt"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// A quarter of an MI300X whose first CUs are taken, and the environment of a
// container that gets it.
func Example() {
	mi300x := cumask.Geometry{CUs: 304, XCCs: 8}
	n, err := cumask.RoundPlain.CUs(mi300x, 25, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	cus, err := cumask.Pack(mi300x, cumask.Range(0, 99), n)
	if err != nil {
		fmt.Println(err)
		return
	}
	spread := mi300x.Spread(cus)
	mask, err := cumask.FormatHSAMask([]cumask.DeviceMask{{Device: 0, CUs: cus}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("HSA_CU_MASK=" + mask)
	fmt.Println(cus.Len(), "CUs,", spread.Effective, "effective, by XCC", spread.PerXCC)
	// Output:
	// HSA_CU_MASK=0:100-175
	// 76 CUs, 72 effective, by XCC [9 9 9 9 10 10 10 10]
}

func ExamplePack_insufficient() {
	mi300x := cumask.Geometry{CUs: 304, XCCs: 8}
	var free cumask.Set // only XCC 0
	for cu := 0; cu < mi300x.CUs; cu += mi300x.XCCs {
		free = free.Union(cumask.Of(cu))
	}
	_, err := cumask.Pack(mi300x, mi300x.All().Minus(free), 8)
	var short *cumask.InsufficientError
	if errors.As(err, &short) {
		fmt.Printf("want %d, free %d, short: XCC %d\n", short.Want, short.Free, short.XCC)
	}
	// Output: want 8, free 38, short: XCC 1
}

// Two containers of one pod run at once, and XCC 0 has two CUs left.
func ExamplePackAll() {
	mi300x := cumask.Geometry{CUs: 304, XCCs: 8}
	var used cumask.Set
	for cu := 16; cu < mi300x.CUs; cu += mi300x.XCCs {
		used = used.Union(cumask.Of(cu))
	}
	sets, err := cumask.PackAll(mi300x, used, []int{76, 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range sets {
		fmt.Println(s.Len(), mi300x.Spread(s).PerXCC)
	}
	// Output:
	// 76 [1 11 11 11 11 11 10 10]
	// 8 [1 1 1 1 1 1 1 1]
}

func ExampleParseSet() {
	for _, list := range []string{"8,0-3,10-12", "0-3,3-5", "7-4"} {
		s, err := cumask.ParseSet(list)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(s, s.Len())
	}
	// Output:
	// 0-3,8,10-12 8
	// cu list "0-3,3-5": part "3-5": cu 3 is there already: invalid list or mask
	// cu list "7-4": part "7-4": want an ascending range: invalid list or mask
}

// A slip in one set costs the masks of all later GPUs.
func ExampleParseHSAMask() {
	_, err := cumask.ParseHSAMask("0:0-3;1:5-2;2:0-3")
	var bad *cumask.HSAMaskError
	if errors.As(err, &bad) {
		fmt.Printf("%d of %d sets in force: %v\n", bad.Set, bad.Sets, bad.Kept)
	}
	// Output: 1 of 3 sets in force: [{0 0-3}]
}

func ExampleGeometry_Locate() {
	rx7900xtx := cumask.Geometry{CUs: 96, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2, CUsPerSA: 8}
	for _, cu := range []int{0, 1, 2, 12, 24} {
		at, _ := rx7900xtx.Locate(cu)
		fmt.Printf("CU %2d: SE %d, SA %d, CU %d\n", cu, at.SE, at.SA, at.CU)
	}
	// Output:
	// CU  0: SE 0, SA 0, CU 0
	// CU  1: SE 0, SA 0, CU 1
	// CU  2: SE 1, SA 0, CU 0
	// CU 12: SE 0, SA 1, CU 0
	// CU 24: SE 0, SA 0, CU 2
}

// Two pods claim the same CUs: both are named, neither is touched by new grants.
func ExampleOccupancy() {
	mi300x := cumask.Geometry{CUs: 304, XCCs: 8}
	o := cumask.NewOccupancy(mi300x)
	for _, pod := range []struct {
		name string
		cus  cumask.Set
	}{
		{"team/train", cumask.Range(0, 75)},
		{"team/serve", cumask.Range(70, 100)},
	} {
		if err := o.Add(pod.name, pod.cus); err != nil {
			fmt.Println(err)
		}
	}
	cus, err := cumask.Pack(mi300x, o.Used(), 76)
	fmt.Println(cus, err)
	fmt.Println("freed:", o.Remove("team/train"))
	// Output:
	// cu 70: held by "team/train", claimed by "team/serve"
	// 101-176 <nil>
	// freed: 0-69
}

func ExampleRounding() {
	mi300x := cumask.Geometry{CUs: 304, XCCs: 8}
	for _, r := range []cumask.Rounding{cumask.RoundPlain, cumask.RoundBalanced} {
		n, err := r.CUs(mi300x, 25, 10)
		fmt.Println(r, n, err)
	}
	// Output:
	// plain 76 <nil>
	// balanced 72 <nil>
}
