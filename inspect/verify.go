package inspect

// verify fills in the problems.
func (c *Cluster) verify() {}
