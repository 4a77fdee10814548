//go:build !unix

package pgtest

import (
	"errors"
	"syscall"
)

type watchdog struct{}

func (*watchdog) end() {}

func watch(string) (*watchdog, error) { return nil, errUnsupported }

func tempDir() (string, error) { return "", errUnsupported }

func giveToServerUser(string) error { return nil }

func asServerUser() *syscall.SysProcAttr { return nil }

func freePort() uint32 { return 0 }

var errUnsupported = errors.New("pgtest: this system cannot run a temporary cluster; point " + EnvURL + " to a server")
