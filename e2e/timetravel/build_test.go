package timetravel

import (
	_ "embed" // for the clock
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// offsetVariable is the environment variable of clock.go.txt.
const offsetVariable = "FLEETWRIGHT_TEST_CLOCK_OFFSET"

//go:embed clock.go.txt
var clock []byte

// readClock is where time.Now reads the clock.
const readClock = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"

// newBin returns a directory like bin, with an operator whose clock can be off: see [offsetVariable].
// It is the operator of this tree, compiled with a changed package time.
func newBin(dir, bin string) (string, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return "", err
	}
	programs, err := os.ReadDir(bin)
	if err != nil {
		return "", err
	}
	for _, program := range programs {
		if program.Name() != "fleetwright" {
			err = errors.Join(err, os.Symlink(filepath.Join(bin, program.Name()), filepath.Join(dir, program.Name())))
		}
	}
	overlay, overlayErr := writeOverlay(dir)
	if err := errors.Join(err, overlayErr); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-overlay", overlay, "-o", filepath.Join(dir, "fleetwright"), "./cmd/fleetwright")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the operator: %w\n%s", err, output)
	}
	return dir, nil
}

// writeOverlay writes the changed files of the package time, and the overlay that names them.
func writeOverlay(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the Go sources: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	content, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(content), readClock) {
		return "", fmt.Errorf("%s/time.go has another func Now in this version of Go: adapt readClock", source)
	}
	changed := strings.Replace(string(content), readClock, readClock+"\tsec += clockOffset\n", 1)
	file, offset, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "clock_offset.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(source, "time.go"):         file,
		filepath.Join(source, "clock_offset.go"): offset,
	}})
	return overlay, errors.Join(err, os.WriteFile(file, []byte(changed), 0o600), os.WriteFile(offset, clock, 0o600), os.WriteFile(overlay, list, 0o600))
}
