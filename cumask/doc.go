// Package cumask works with masks of compute units (CUs) of AMD GPUs: sets of
// CUs, the shape of a GPU, masks that are as good as the silicon allows, and
// the grammar in which ROCm reads them.
package cumask
