// Command quickstart shows the whole way of a pod's request, with no GPU and no
// cluster: it discovers the GPUs of a recorded 8-GPU MI300X node, registers
// them, schedules a dozen pods onto them, hands out compute units, and prints
// what every party writes and what each container gets.
package main
