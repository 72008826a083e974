package simulate_test

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/cumask/simulate"
)

func ExampleRun() {
	report, err := simulate.Run(simulate.Config{
		Geometry: cumask.Geometry{CUs: 304, XCCs: 8}, // MI300X
		Requests: 5000,
		Seed:     1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range report.Results {
		fmt.Printf("%-12s %4d granted, %3d of them starve an XCC, effective %.3f of the bound\n", r.Policy, r.Granted, r.Starved, r.OfBound)
	}
	// Output:
	// pack         3352 granted,   0 of them starve an XCC, effective 1.000 of the bound
	// lowest-first 3354 granted,  98 of them starve an XCC, effective 0.956 of the bound
}
