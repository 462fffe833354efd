package kwok

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	loopback = "127.0.0.1"

	// Ports are taken from this range, which is below the ephemeral ports of clients.
	firstPort, lastPort = 20000, 30000
)

// ports allocates free ports for the processes of one environment. The ports of a stopped cluster
// are not free.
type ports struct {
	dir string

	mu   sync.Mutex
	next int
}

// newPorts starts at an offset that depends on the directory, so that the demo does not take the
// ports of a cluster that a suite has stopped.
func newPorts(dir string) *ports {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(dir)) // It never fails.
	return &ports{dir: dir, next: firstPort + int(hash.Sum32()%(lastPort-firstPort))}
}

// FreePorts returns n free ports of 127.0.0.1, for processes whose files are in the directory.
func FreePorts(dir string, n int) ([]int, error) { return newPorts(dir).take(n) }

// take returns n free ports, and never the same port twice.
func (p *ports) take(n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.usedByClusters()
	var free []int
	for range lastPort - firstPort {
		port := p.next
		if p.next++; p.next == lastPort {
			p.next = firstPort
		}
		if kept[port] || !isFree(port) || !claim(port) {
			continue
		}
		if free = append(free, port); len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("no %d ports are free on %s from %d to %d", n, loopback, firstPort, lastPort)
}

// claims has an open file for each port that this process has taken.
var claims = struct {
	mu    sync.Mutex
	files []*os.File
}{}

// claim reports whether no other process has taken the port for a program that does not listen yet.
// Suites start at the same time, and their offsets may be close to each other. The claim ends with
// this process.
func claim(port int) bool {
	file, err := lock("ports", strconv.Itoa(port))
	if err != nil {
		return !errors.Is(err, syscall.EWOULDBLOCK) // otherwise there is nowhere to say so
	}
	claims.mu.Lock()
	defer claims.mu.Unlock()
	claims.files = append(claims.files, file)
	return true
}

var portSetting = regexp.MustCompile(`[pP]ort: (\d+)`)

// usedByClusters returns the ports of this directory's clusters, from kwokctl's files.
func (p *ports) usedByClusters() map[int]bool {
	kept := map[int]bool{}
	files, _ := filepath.Glob(filepath.Join(p.dir, "clusters", "*", "kwok.yaml")) // The pattern is valid.
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the cluster is being deleted
		}
		for _, match := range portSetting.FindAllSubmatch(content, -1) {
			if port, err := strconv.Atoi(string(match[1])); err == nil {
				kept[port] = true
			}
		}
	}
	return kept
}

// errPortTaken means that another program listens on a port of a cluster's component.
var errPortTaken = errors.New("the port is used by another program")

// checkPorts returns an error that wraps [errPortTaken] if a component without a process cannot
// listen on its port. The file with the ports may be missing.
func (c *cluster) checkPorts() error {
	content, err := os.ReadFile(filepath.Join(c.dir, "kwok.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var settings struct {
		Components []struct {
			Name  string
			Ports []struct{ Port int }
		}
	}
	if err := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096).Decode(&settings); err != nil {
		return fmt.Errorf("read the ports of cluster %s: %w", c.name, err)
	}
	dead, err := c.dead()
	if err != nil {
		return err
	}
	for _, component := range settings.Components {
		for _, port := range component.Ports {
			if slices.Contains(dead, component.Name) && !isFree(port.Port) {
				return fmt.Errorf("start %s on port %d: %w", component.Name, port.Port, errPortTaken)
			}
		}
	}
	return nil
}

func isFree(port int) bool {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
