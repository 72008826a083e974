//go:build !race

package cumask

const raceEnabled = false
