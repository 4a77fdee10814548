package semeltest

import (
	"context"
	"net/http"
	"testing"
)

// TransportCases are the names of TestTransport's cases.
func TransportCases() (names []string) {
	for _, r := range transportRules() {
		names = append(names, r.name)
	}
	return names
}

// TransportCase runs one case of TestTransport.
func TransportCase(t *testing.T, name string, new func(base http.RoundTripper) http.RoundTripper) *Violation {
	return clientCaseOf(t, transportRules(), name, transportClient(new))
}

// ClientCase runs one case of TestClient.
func ClientCase(t *testing.T, name string, c Client) *Violation {
	return clientCaseOf(t, clientRules(), name, &c)
}

func clientCaseOf(t *testing.T, rules []clientRule, name string, c *Client) (v *Violation) {
	for _, r := range rules {
		if r.name == name {
			if v = bubbled(t, func(ctx context.Context, w **World) *Violation { return r.violation(ctx, c, w) }); v != nil {
				v = r.explain(v)
			}
			return v
		}
	}
	t.Fatalf("there is no case %q", name)
	return nil
}

// ServerCase runs one case of TestServer.
func ServerCase(t *testing.T, name string, new func(t *testing.T) Server) (v *Violation) {
	for _, r := range serverRules() {
		if r.name == name {
			v = bubbledT(t, func(ctx context.Context, t *testing.T, w **World) *Violation {
				s := new(t)
				if !r.fits(&s) {
					t.Errorf("the case %q is left out", name)
				}
				return r.violation(ctx, &s, w)
			})
			if v != nil {
				v = r.explain(v)
			}
			return v
		}
	}
	t.Fatalf("there is no case %q", name)
	return nil
}
