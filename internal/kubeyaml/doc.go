// Package kubeyaml reads nodes and pods from what kubectl prints and users
// write: lists and single objects, YAML and JSON, several documents in a file.
// It talks to no cluster.
package kubeyaml
