// Package proxy stands between a program and the API server: it records the
// program's calls and breaks chosen ones, before or after they take effect.
//
//	p, err := proxy.Start(cluster.Admin())
//	defer p.Stop()
//	... run the program with p.Access(account) ...
//	p.Intercept(func(c proxy.Call) proxy.Fault {
//		if c.Number == 3 {
//			return proxy.Fault{CutAnswer: true} // took effect, the answer is lost
//		}
//		return proxy.Fault{}
//	})
//
// It speaks HTTP/1.1 with TLS on loopback and passes the program's own token on,
// so that RBAC holds. A cut shows to the program as a connection that closes
// without an answer. Be aware that net/http and client-go try a GET again by
// themselves after that, which counts as a call of its own.
package proxy
