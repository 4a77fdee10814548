// Slog writes each attempt to a structured log. An attempt is a slog.LogValuer: method, URL without its query, key,
// verdict, outcome and the wait that follows, and neither bodies nor headers.
package main

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/semel-go/semel"
	"github.com/semel-go/semel/testserver"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, nil)))
	overload := testserver.At(testserver.BeforeClaim, 2, testserver.Status(http.StatusServiceUnavailable, time.Second))
	bank := testserver.New(testserver.LoseReply(1), overload)
	if err := bank.Start(); err != nil {
		fail(err)
	}
	defer bank.Close()

	t := &semel.Transport{Observe: observe}
	c := semel.Client{HTTP: t.Client()}
	req, err := http.NewRequest(http.MethodPost, bank.URL+"/transfers?secret=1", strings.NewReader(`{"from":"alice","to":"bob","amount":100}`))
	if err != nil {
		fail(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		fail(err)
	}
	defer resp.Body.Close()
	slog.Info("transfer", "status", resp.StatusCode)
	if n := len(bank.Bank.Transfers()); n != 1 {
		fail(errors.New("the money must move once"))
	}
}

// observe runs within the operation, so it must not take long.
func observe(a semel.Attempt) {
	level := slog.LevelInfo
	if !a.Last || a.Outcome == semel.Unknown {
		level = slog.LevelWarn
	}
	slog.Log(a.Request.Context(), level, "attempt", "semel", a)
}

func fail(err error) {
	slog.Error("failed", "err", err)
	os.Exit(1)
}
