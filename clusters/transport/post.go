package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PostJSON creates a small JSON object and reads the response, which may have at most maxAnswer
// bytes. The context limits the time. Like GetJSON it bypasses the limits on requests and
// responses. It does not retry, because an object may have been created.
func (c *Client) PostJSON(ctx context.Context, path string, object, into any) error {
	content, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode %T: %w", object, err)
	}
	ctx = context.WithValue(ctx, unlimited{}, true)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Config.Host+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	request.Header.Set("Content-Type", runtime.ContentTypeJSON)
	response, err := c.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read only
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusOK {
		return statusError(response.StatusCode, body)
	}
	if json.Unmarshal(body, into) != nil { // its text may quote the response
		return ErrNotAPIServer
	}
	return nil
}

// statusError returns the error for a response with a code, with the message of its Status if it
// has one. authTransport has redacted the token of the request from the body.
func statusError(code int, body []byte) error {
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" || status.Message == "" {
		return &StatusError{Code: code}
	}
	status.Code = int32(code)
	return &apierrors.StatusError{ErrStatus: status}
}
