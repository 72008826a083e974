// Package process runs the programs a test needs beside itself, such as etcd,
// the API server and the plugin binary, and makes sure that they end with it:
// the kernel kills them when the test process dies, however it dies.
package process
