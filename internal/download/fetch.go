package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Limits of a download. Without network access, the caller must start to build after seconds.
const (
	connectLimit = 5 * time.Second
	answerLimit  = 10 * time.Second
	stallLimit   = 15 * time.Second
	fileLimit    = 10 * time.Minute // building everything does not take much longer
)

var (
	errStalled = errors.New("the server sends nothing more")
	errSlow    = fmt.Errorf("it takes more than %s", fileLimit)
)

// statusError is an answer other than 200.
type statusError struct {
	url    string
	status string
	code   int
}

func (e *statusError) Error() string { return e.url + " answers " + e.status }

// fetcher reads URLs.
type fetcher struct {
	client *http.Client
	mirror *url.URL
	stall  time.Duration
}

// newFetcher returns a fetcher that reads from a mirror, which is a URL or a directory, or from the
// original hosts if mirror is empty.
func newFetcher(mirror string) (*fetcher, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectLimit}).DialContext,
		TLSHandshakeTimeout:   connectLimit,
		ResponseHeaderTimeout: answerLimit,
		ForceAttemptHTTP2:     true,
	}
	transport.RegisterProtocol("file", http.NewFileTransport(http.Dir("/")))
	f := &fetcher{client: &http.Client{Transport: transport}, stall: stallLimit}
	if mirror == "" {
		return f, nil
	}
	if !strings.Contains(mirror, "://") {
		directory, err := filepath.Abs(mirror)
		if err != nil {
			return nil, err
		}
		mirror = "file://" + filepath.ToSlash(directory)
	}
	parsed, err := url.Parse(mirror)
	if err != nil {
		return nil, errors.New("TOOLS_MIRROR is no URL and no directory") // its value may have a password
	}
	f.mirror = parsed
	return f, nil
}

// location returns the URL from which original is read.
func (f *fetcher) location(original string) string {
	if f.mirror == nil {
		return original
	}
	return f.mirror.JoinPath(strings.TrimPrefix(original, "https://")).String()
}

// open starts to read a URL. The length is -1 if it is unknown.
func (f *fetcher) open(ctx context.Context, original string) (body io.ReadCloser, length int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.location(original), http.NoBody)
	if err != nil {
		return nil, 0, errors.New("TOOLS_MIRROR is no URL and no directory")
	}
	response, err := f.client.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // Its URL is different for each file.
			err = wrapped.Err
		}
		return nil, 0, fmt.Errorf("%s: %w", host(request.URL), err)
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close() //nolint:errcheck,gosec // only read
		return nil, 0, &statusError{url: request.URL.Redacted(), status: response.Status, code: response.StatusCode}
	}
	return response.Body, response.ContentLength, nil
}

func host(location *url.URL) string {
	if location.Scheme == "file" {
		return location.Path
	}
	return location.Host
}

// text returns the content of a small file.
func (f *fetcher) text(ctx context.Context, location string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	body, _, err := f.open(ctx, location)
	if err != nil {
		return "", err
	}
	defer body.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(body, 16<<20))
	return string(content), err
}

// counter counts what was read, for the progress.
type counter interface{ add(read, total int64) }

// binary downloads the binary of an entry to a file. The file appears only when it is complete.
func (f *fetcher) binary(ctx context.Context, e entry, file string, count counter) error {
	directory := filepath.Dir(file)
	if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // as the caches of go
		return err
	}
	temp, err := os.CreateTemp(directory, filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // already renamed, or of no use
	defer temp.Close()           //nolint:errcheck // Close is checked below
	if err := f.verified(ctx, e, temp, count); err != nil {
		return err
	}
	if e.member != "" {
		archive := temp
		if temp, err = os.CreateTemp(directory, filepath.Base(file)+".*"); err != nil {
			return err
		}
		defer os.Remove(temp.Name()) //nolint:errcheck // as above
		defer temp.Close()           //nolint:errcheck // as above
		if err := extract(e, archive, temp); err != nil {
			return err
		}
	}
	if err := temp.Chmod(0o755); err != nil { //nolint:gosec // a program
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}

// verified writes the file at the URL of an entry, and returns an error if it is not complete or if
// it has another checksum.
func (f *fetcher) verified(ctx context.Context, e entry, to io.Writer, count counter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deadline := time.AfterFunc(fileLimit, func() { cancel(errSlow) })
	defer deadline.Stop()
	body, length, err := f.open(ctx, e.url)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // only read
	count.add(0, max(length, 0))

	sum := sha256.New()
	algorithm, want, _ := strings.Cut(e.checksum, ":")
	if algorithm == "sha512" {
		sum = sha512.New()
	}
	stall := time.AfterFunc(f.stall, func() { cancel(errStalled) })
	defer stall.Stop()
	for buffer := make([]byte, 1<<18); ; {
		n, err := body.Read(buffer)
		stall.Reset(f.stall)
		count.add(int64(n), 0)
		sum.Write(buffer[:n]) //nolint:gosec // a hash returns no error
		if _, err := to.Write(buffer[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("%s is not complete: %w", f.redacted(e.url), err)
		}
	}
	if have := hex.EncodeToString(sum.Sum(nil)); have != want {
		return fmt.Errorf("%s has another checksum than in tools/checksums.txt: %s:%s", f.redacted(e.url), algorithm, have)
	}
	return nil
}

// redacted returns the location of a URL without a password.
func (f *fetcher) redacted(original string) string {
	parsed, err := url.Parse(f.location(original))
	if err != nil {
		return original
	}
	return parsed.Redacted()
}

// extract writes the member of an archive.
func extract(e entry, archive *os.File, to io.Writer) error {
	missing := fmt.Errorf("%s has no file %s", e.url, e.member)
	if strings.HasSuffix(e.url, ".zip") {
		info, err := archive.Stat()
		if err != nil {
			return err
		}
		reader, err := zip.NewReader(archive, info.Size())
		if err != nil {
			return err
		}
		member, err := reader.Open(e.member)
		if err != nil {
			return missing
		}
		defer member.Close() //nolint:errcheck // only read
		_, err = io.Copy(to, member)
		return err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return missing
		}
		if err != nil {
			return err
		}
		if strings.TrimPrefix(header.Name, "./") == e.member && header.Typeflag == tar.TypeReg {
			_, err := io.Copy(to, reader) //nolint:gosec // the checksum of the archive is right
			return err
		}
	}
}
