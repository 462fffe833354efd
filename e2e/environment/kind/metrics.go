package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// metricsPort is the one that the shipped Deployment names metrics.
const metricsPort = "8080"

// MetricsURL is part of [environment.Operator]: on 127.0.0.1, and from there through the hub's API server to the operator's pod of the
// moment. It is served until this process ends.
func (o *operator) MetricsURL() string {
	o.serving.Do(func() {
		var err error
		if o.metrics, err = o.serveMetrics(); err != nil {
			o.metrics = "" // Whoever asks there is told that it is no URL.
		}
	})
	return o.metrics
}

func (o *operator) serveMetrics() (string, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(o.hub.Kubeconfig())
	if err != nil {
		return "", err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", err
	}
	hub, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pod, err := o.runningPod(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		target := *hub
		target.Path = fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%s/proxy", pod.Namespace, pod.Name, metricsPort)
		proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&target) }}
		proxy.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // It ends with the process.
	return "http://" + listener.Addr().String() + "/metrics", nil
}

func (o *operator) runningPod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := o.pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning && pods[i].DeletionTimestamp == nil {
			return &pods[i], nil
		}
	}
	return nil, errors.New("the operator has no running pod")
}
