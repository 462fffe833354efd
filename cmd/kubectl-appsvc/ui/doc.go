// Package ui serves a page that shows the fleet, to one person on this machine. It reads the hub
// with the caller's own kubeconfig, and writes nothing.
//
// # Contract
//
//   - The server listens on a loopback address only. It answers GET requests only. The hub is only
//     read.
//   - Each request to /api needs the token in the header Authorization. The token is random, and it
//     is in the fragment of the URL, which a browser sends to no server. Requests with another
//     Host or Origin are refused, so that a page of another site cannot reach the server by its own
//     name (DNS rebinding).
//   - The page loads nothing from elsewhere. Its Content-Security-Policy forbids scripts and styles
//     that are not files of this server, and connections to other servers.
//   - What the page shows is a pure function of the objects on the hub (state.go).
//   - A page gets the whole state once, and then only the AppServices and clusters that changed, at
//     most four times a second. A large state or change arrives in parts, and the page shows them
//     together. A slow page gets fewer changes, and never an old state: there is no
//     queue.
//   - While the hub does not answer, or refuses to list a kind, the state says so, and since when.
//     It also says that the operator does not run, if the caller may read the Lease of the operator.
//
// # Usage
//
//	server, err := ui.Listen(ui.Options{Config: config, Namespace: "shop", Address: "127.0.0.1:0"})
//	fmt.Println(server.URL())
//	err = server.Serve(ctx) // until ctx ends
package ui
