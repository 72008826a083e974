// Package drawtest makes clusters to draw: nodes of eight GPUs as their device
// plugins register them, with the pods that HAMi's scheduler and the plugins
// have placed there. They are the same for the same options.
//
// Figures of the GPUs (CUs, XCCs, VRAM, partitions) are those of the recorded
// machines in testdata; names, ids and the mix of pods are invented.
package drawtest
