// Package crash tests that the plugin keeps its promises when something breaks
// in the middle of an admission: the plugin's process is killed, the API server
// stops, hangs, refuses or does not answer, and pods come and go by the
// hundred. Whatever happens, no CU is held by two pods that live, no lock is
// left, and each pod either gets what it was granted or is refused cleanly, and
// an equal pod is served after it.
//
// The tests of each commit break what they name. With
//
//	go test ./crash -run TestKillAtRandom -crash.random 200
//
// the plugin is killed at that many random moments, with kubelet restarting and
// the node rebooting now and then; a seed that is printed repeats a run's
// choices: -crash.seed. The same number is that of pods whose calls break at
// random (TestFaultsAtRandom), and from 100 on each call of a start breaks in
// every way (TestFaultAtStart).
package crash
