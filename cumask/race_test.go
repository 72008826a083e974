//go:build race

package cumask

// raceEnabled makes the long tests shorter: they are one goroutine's work, and
// ten times slower under the race detector.
const raceEnabled = true
