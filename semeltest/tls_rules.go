package semeltest

import (
	"context"
	"net/http"
	"time"
)

// secured sends a request with TLS, over connections that break by the plan.
func (p *clientCase) secured(plan func(conn int) Plan) (*http.Response, error) {
	p.world.networks[1].Plan = plan
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Minute)
	defer cancel()
	resp, err := p.trip(ctx, func(r *http.Request) { r.URL.Scheme = "https" })
	p.finish(resp)
	return resp, err
}

// firstConn is the plan of the first connection.
func firstConn(plan Plan) func(int) Plan {
	return func(conn int) Plan {
		if conn == 1 {
			return plan
		}
		return Plan{}
	}
}

var tlsRules = []clientRule{
	{name: "tls/the handshake is cut", rule: "A connection that was cut within its TLS handshake has sent nothing: the request is sent again (faults.md 3).", run: func(p *clientCase) {
		if resp, err := p.secured(firstConn(Plan{Up: Cut{After: 100, End: RST}})); err != nil || resp.StatusCode >= 300 {
			p.errorf("the request ends with %v, %v", resp, err)
		}
		p.effects = 1
	}},
	{name: "tls/the server's part of the handshake is cut", rule: "A connection that was cut within its TLS handshake has sent nothing: the request is sent again (faults.md 3).", run: func(p *clientCase) {
		if resp, err := p.secured(firstConn(Plan{Down: Cut{After: 50, End: FIN}})); err != nil || resp.StatusCode >= 300 {
			p.errorf("the request ends with %v, %v", resp, err)
		}
		p.effects = 1
	}},
	{name: "tls/the handshake hangs", rule: "A TLS handshake that hangs ends by a time limit of the client or the deadline, and nothing takes effect twice (faults.md 3).", run: func(p *clientCase) {
		_, _ = p.secured(firstConn(Plan{Down: Cut{End: Stall}}))
	}},
	{name: "tls/the certificate is not trusted", rule: "A certificate that cannot be verified is no passing trouble: another attempt cannot help (faults.md 3).", run: func(p *clientCase) {
		p.world.distrust = true
		if resp, err := p.secured(nil); err == nil {
			p.errorf("the reply of a stranger was accepted: %v", resp.Status)
		}
		p.atMost(1)
	}},
}
