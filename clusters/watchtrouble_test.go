package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestWatchTroubleLasts(t *testing.T) {
	const second = time.Second
	type seconds = []time.Duration
	tests := map[string]struct {
		failed seconds // when watches failed
		now    time.Duration
		want   string
	}{
		"never failed":                     {nil, 1000, ""},
		"failed once":                      {seconds{0}, 0, ""},
		"failed once, a while ago":         {seconds{0}, 60, ""},
		"not for long yet":                 {seconds{0, 10, 14}, 14, ""},
		"for long":                         {seconds{0, 10, 15}, 15, "the watches fail: at 15s"},
		"for long, tried again rarely":     {seconds{0, 75}, 75, "the watches fail: at 1m15s"},
		"for long, about to be tried":      {seconds{0, 30}, 105, "the watches fail: at 30s"},
		"for long, and mended":             {seconds{0, 30}, 106, ""},
		"mended, and failed anew":          {seconds{0, 30, 106}, 106, ""},
		"mended, and failed anew for long": {seconds{0, 30, 106, 136}, 136, "the watches fail: at 2m16s"},
		"now and then, for a day":          {seconds{0, 1000, 2000, 86400}, 86400, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var trouble watchTrouble
			start := time.Now()
			for _, at := range test.failed {
				trouble.note(fmt.Errorf("at %s", at*second), start.Add(at*second))
			}
			got := ""
			if err := trouble.lasting(start.Add(test.now * second)); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWatchTroubleIsWhatIsNoPartOfWatching(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	tests := map[string]struct {
		err            error
		noted, refused bool
	}{
		"the end of a watch":  {io.EOF, false, false},
		"an expired version":  {apierrors.NewResourceExpired("old"), false, false},
		"a failed connection": {errors.New("refused"), true, false},
		"an answer cut short": {io.ErrUnexpectedEOF, true, false},
		"too much":            {errTooMuch, true, false},
		"forbidden":           {apierrors.NewForbidden(pods, "", nil), true, true},
		"unauthorized":        {apierrors.NewUnauthorized(""), true, true},
		"forbidden, wrapped":  {fmt.Errorf("list: %w", apierrors.NewForbidden(pods, "", nil)), true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused := false
			trouble := watchTrouble{refused: func() { refused = true }}
			reflector := toolscache.NewReflector(&toolscache.ListWatch{}, &corev1.Pod{}, toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), 0)
			trouble.handle(context.WithValue(t.Context(), essential{}, true), reflector, test.err)
			if noted := trouble.last() != nil; noted != test.noted || refused != test.refused {
				t.Errorf("noted %t, refused %t; want %t, %t", noted, refused, test.noted, test.refused)
			}
		})
	}
}
