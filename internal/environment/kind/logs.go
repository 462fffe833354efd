package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// logFile returns the path of the file with the logs of stopped operators, whose pods are gone.
func (e *Environment) logFile() string { return filepath.Join(e.Dir, "operator.log") }

// Log is part of [environment.Operator]. If a container crashed more than once, only the log of the
// last crash is kept.
func (o *operator) Log() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	log := &bytes.Buffer{}
	if ended, err := os.ReadFile(o.hub.env.logFile()); err == nil {
		log.Write(ended)
	}
	pods, err := o.pods(ctx)
	if err != nil {
		return fmt.Sprintf("%s\n%v", log, err)
	}
	for i := range pods {
		if err := o.podLog(ctx, &pods[i], false, log); err != nil {
			fmt.Fprintln(log, err)
		}
	}
	return log.String()
}

// podLog copies the logs of a pod's previous and current container.
func (o *operator) podLog(ctx context.Context, pod *corev1.Pod, follow bool, to io.Writer) error {
	client, err := o.hub.clientset(0)
	if err != nil {
		return err
	}
	copyLog := func(options corev1.PodLogOptions) error {
		stream, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).Stream(ctx)
		if err != nil {
			return fmt.Errorf("read the log of pod %s: %w", pod.Name, err)
		}
		defer func() { _ = stream.Close() }()
		_, err = io.Copy(to, stream)
		return err
	}
	var before error
	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].RestartCount > 0 {
		before = copyLog(corev1.PodLogOptions{Previous: true})
	}
	return errors.Join(before, copyLog(corev1.PodLogOptions{Follow: follow}))
}

// followLogs starts to copy the logs of the operator's pods to the file. The returned function
// waits until the logs end. A pod that never ran has no log.
func (o *operator) followLogs(ctx context.Context) func() error {
	pods, err := o.pods(ctx)
	if err != nil {
		return func() error { return err }
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	logs := make([]bytes.Buffer, len(pods))
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() {
			if err := o.podLog(ctx, &pods[i], true, &logs[i]); err != nil {
				fmt.Fprintln(&logs[i], err)
			}
		})
	}
	return func() error {
		defer cancel()
		group.Wait()
		file, err := os.OpenFile(o.hub.env.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		for i := range logs {
			_, writeErr := file.Write(logs[i].Bytes())
			err = errors.Join(err, writeErr)
		}
		return errors.Join(err, file.Close())
	}
}
