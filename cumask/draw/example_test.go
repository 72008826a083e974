package draw_test

import (
	"fmt"
	"os"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/cumask/draw"
)

func ExampleText() {
	mi308x := cumask.Geometry{CUs: 80, XCCs: 4}
	o := cumask.NewOccupancy(mi308x)
	for _, pod := range []struct {
		name string
		cus  int
	}{{"ml/train", 40}, {"ml/serve", 10}} {
		cus, err := cumask.Pack(mi308x, o.Used(), pod.cus)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := o.Add(pod.name, cus); err != nil {
			fmt.Println(err)
			return
		}
	}
	gpu := draw.GPU{Name: "GPU 3, MI308X", Geometry: mi308x, Holders: draw.Holders(o)}
	if err := draw.Text(os.Stdout, gpu, draw.TextOptions{}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// GPU 3, MI308X
	// 80 CUs on 4 XCCs, 30 free
	// XCC 0  bbbbbbbbbbaaa.......     7 free
	// XCC 1  bbbbbbbbbbaaa.......     7 free
	// XCC 2  bbbbbbbbbbaa........     8 free
	// XCC 3  bbbbbbbbbbaa........     8 free
	//  a  ml/serve    10 CUs     8 effective  40-49
	//  b  ml/train    40 CUs    40 effective  0-39
	//  .  free        30 CUs    28 effective  50-79
}
