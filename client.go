package semel

import "net/http"

// A Client performs operations. The zero Client is ready and safe for concurrent use.
type Client struct {
	HTTP *http.Client // if nil, one on a Transport of its own
}

// Do performs the request and returns the operation's answer, or an *[Error].
func (c *Client) Do(req *http.Request) (*http.Response, error) { return http.DefaultClient.Do(req) }

// Check judges what any client on top of a Transport returned.
func Check(resp *http.Response, err error) (*http.Response, error) { return resp, err }
