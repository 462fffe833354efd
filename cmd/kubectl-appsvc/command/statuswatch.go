package command

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// follow shows the AppServices and their changes until the context ends.
func (p *appListPrinter) follow(ctx context.Context, options []client.ListOption) error {
	following, hasRead, cancel := hub.WithTimeout(ctx, p.flags.timeout)
	defer cancel()
	isFirst := true
	err := p.h.FollowList(following, &v1alpha1.AppServiceList{}, options, func(all client.ObjectList) error {
		list := all.(*v1alpha1.AppServiceList)
		hasRead()
		if isFirst {
			if err := p.checkNames(list); err != nil {
				return err
			}
			isFirst = false
		}
		return p.show(following, list)
	}, func(err error) { p.o.Note("%s; trying again", hub.Describe(err)) })
	switch {
	case ctx.Err() == nil && following.Err() != nil:
		return hub.ExitError{Code: hub.ExitNegative, Message: fmt.Sprintf("the time to watch has ended after %s", p.flags.timeout)}
	case ctx.Err() != nil && !isFirst: // the user ended it
		return nil
	}
	return err
}

// checkNames returns an error if an AppService with one of the names does not exist.
func (p *appListPrinter) checkNames(list *v1alpha1.AppServiceList) error {
	for _, name := range p.names {
		if !slices.ContainsFunc(list.Items, func(app v1alpha1.AppService) bool { return app.Name == name }) {
			return p.h.NoSuchApp(name)
		}
	}
	return nil
}

// show shows a list that is followed: on a terminal, all of it, and otherwise what has changed.
func (p *appListPrinter) show(ctx context.Context, list *v1alpha1.AppServiceList) error {
	if len(p.names) > 0 {
		list.Items = slices.DeleteFunc(list.Items, func(app v1alpha1.AppService) bool { return !slices.Contains(p.names, app.Name) })
	}
	apps, err := p.sort(list)
	switch {
	case err != nil:
		return err
	case p.objects != nil:
		return p.showObjects(apps)
	}
	notes := p.operatorNotes(ctx)
	if ctx.Err() != nil { // the notes may say so
		return ctx.Err()
	}
	if isEmpty := len(apps) == 0; isEmpty != p.wasEmpty {
		p.wasEmpty = isEmpty
		if isEmpty {
			p.o.Note("%s", p.empty())
		}
	}
	return p.table.Show(p.rowsOf(apps), notes...)
}

// showObjects prints the objects that have changed.
func (p *appListPrinter) showObjects(apps []*v1alpha1.AppService) error {
	for _, app := range apps {
		key := client.ObjectKeyFromObject(app)
		before := p.shown[key]
		p.shown[key] = app.DeepCopy()
		if before != nil && isSame(before, app) {
			continue
		}
		if err := p.objects.PrintObj(app, p.o.Out); err != nil {
			return err
		}
	}
	return nil
}
