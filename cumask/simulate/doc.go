// Package simulate compares ways to choose CUs over time: pods arrive with
// requests of some percent of one GPU, hold what they get for a while, and
// leave. All policies see the same pods.
//
// What a policy is judged by is the masks it hands out: how many of the granted
// CUs are effective (see [cumask.Spread]), how many masks starve an XCC and so
// would hang their queue, how many pods are refused, and how useful what is
// left free stays.
//
//	report, err := simulate.Run(simulate.Config{Geometry: cumask.Geometry{CUs: 304, XCCs: 8}})
//	err = report.Table(os.Stdout)
//
// A run is settled by its Config: the same seed gives the same report, byte for
// byte. It is a model of masks alone. It knows nothing of memory, share counts
// or how long a kernel runs on the mask it got.
package simulate
