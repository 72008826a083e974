// Package plugin tests the device plugin's binary on real parts: the API
// server, kubelet's device manager and what HAMi's scheduler does, under the
// rights the chart gives it.
package plugin
