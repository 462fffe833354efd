package transport

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestIsList(t *testing.T) {
	for target, want := range map[string]bool{
		"/apis/apps/v1/deployments?limit=500&resourceVersion=0":         true,
		"/api/v1/namespaces/shop/pods?labelSelector=app%3Dweb&limit=50": true,
		"/apis/apps/v1/deployments?allowWatchBookmarks=true&watch=true": false,
		"/api/v1/namespaces/kube-system":                                false,
		"/version":                                                      false,
		"/apis/apps/v1/namespaces/shop/deployments/web":                 false,
	} {
		if got := isList(httptest.NewRequest(http.MethodGet, target, http.NoBody)); got != want {
			t.Errorf("GET %s: %t, want %t", target, got, want)
		}
	}
	if isList(httptest.NewRequest(http.MethodPatch, "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=x&force=true", http.NoBody)) {
		t.Error("an apply is taken for a list")
	}
}
