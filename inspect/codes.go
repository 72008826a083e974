package inspect

// A Code names a kind of problem. The names do not change.
type Code string
