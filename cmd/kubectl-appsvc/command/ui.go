package command

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/ui"
)

func newUI(o *hubOptions) *cobra.Command {
	var port uint16
	command := &cobra.Command{
		Use:   "ui",
		Short: "Show the fleet on a page in the browser",
		Long: `Serve a page that shows all applications on all clusters, and follows every change. It runs until
you press Ctrl+C. With --namespace, it shows the applications of one namespace.

The page is served on this machine only, reads with your own permissions, and changes nothing. The
URL has a random token: other users and other pages of this machine cannot read it without. docs/ui.md
describes the page.`,
		Example: `  # The whole fleet
  kubectl appsvc ui

  # The applications of one namespace
  kubectl appsvc ui -n shop`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.serveUI(command.Context(), port)
		},
	}
	command.Flags().Uint16Var(&port, "port", 0, "`port` on 127.0.0.1; 0 is any free port")
	return command
}

// serveUI prints the URL of the page, and serves it until the context ends.
func (o *hubOptions) serveUI(ctx context.Context, port uint16) error {
	h, err := o.connect()
	if err != nil {
		return err
	}
	raw, err := o.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return err
	}
	server, err := ui.Listen(ui.Options{
		Config:    h.config,
		Context:   cmp.Or(*o.Context, raw.CurrentContext),
		Namespace: *o.Namespace,
		// The operator keeps its Lease there.
		OperatorNamespace: o.secretNamespace,
		Address:           net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))),
	})
	if err != nil {
		return fmt.Errorf("%w: choose another port with --port, or none for any free one", err)
	}
	if err := o.write(server.URL() + "\n"); err != nil {
		return err
	}
	o.note("Open this URL in a browser on this machine. Press Ctrl+C to end.")
	return server.Serve(ctx)
}
