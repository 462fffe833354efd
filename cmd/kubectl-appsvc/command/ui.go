package command

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/ui"
)

func newUI(o *hub.Options) *cobra.Command {
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
			return serveUI(o, command, port)
		},
	}
	command.Flags().Uint16Var(&port, "port", 0, "`port` on 127.0.0.1; 0 is any free port")
	return command
}

// serveUI prints the URL of the page, and serves it until the context ends.
func serveUI(o *hub.Options, command *cobra.Command, port uint16) error {
	h, err := o.Connect()
	if err != nil {
		return err
	}
	raw, err := o.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return err
	}
	kubeContext := cmp.Or(*o.Context, raw.CurrentContext)
	server, err := ui.Listen(ui.Options{
		Config:    h.Config,
		Context:   kubeContext,
		HubFlags:  hubFlags(command.Flags(), kubeContext),
		Namespace: *o.Namespace,
		// The operator keeps its Lease there.
		OperatorNamespace: o.SecretNamespace,
		Address:           net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))),
	})
	if err != nil {
		var refused *net.OpError
		if errors.As(err, &refused) && refused.Op == "listen" {
			return fmt.Errorf("%w: choose another port with --port, or none for any free one", err)
		}
		return err
	}
	if err := o.Write(server.URL() + "\n"); err != nil {
		return err
	}
	o.Note("Open this URL in a browser on this machine. Press Ctrl+C to end.")
	return server.Serve(command.Context())
}

// hubFlags returns the flags by which kubectl reaches the same hub as a command with these flags. A
// token is left out.
func hubFlags(given *pflag.FlagSet, kubeContext string) []string {
	var flags []string
	if kubeContext != "" {
		flags = append(flags, "--context="+kubeContext)
	}
	given.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "kubeconfig", "cluster", "user", "server", "tls-server-name", "certificate-authority", "insecure-skip-tls-verify", "client-certificate", "client-key", "as", "as-uid":
			flags = append(flags, "--"+f.Name+"="+f.Value.String())
		case "as-group":
			for _, group := range f.Value.(pflag.SliceValue).GetSlice() {
				flags = append(flags, "--as-group="+group)
			}
		}
	})
	return flags
}
