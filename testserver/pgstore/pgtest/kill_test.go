//go:build unix

package pgtest_test

import (
	"bufio"
	"fmt"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/semel-go/semel/testserver/pgstore/pgtest"
)

const childEnv = "SEMEL_PGTEST_CHILD"

func TestAClusterEndsWithTheProcessThatStartedItEvenIfThatIsKilled(t *testing.T) {
	if os.Getenv(childEnv) != "" { // the process to be killed
		dsn := pgtest.DSN(t)
		fmt.Println("dsn", dsn, serverDir(t, dsn))
		select {}
	}
	child := osexec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childEnv+"=1", pgtest.EnvURL+"=")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var dsn, dir string
	for lines := bufio.NewScanner(out); dsn == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "dsn %s %s", &dsn, &dir)
	}
	if dsn == "" {
		t.Fatal("the child started no cluster")
	}
	_ = child.Process.Kill()
	_ = child.Wait()

	for range 300 {
		_, connErr := pgx.Connect(t.Context(), dsn)
		_, statErr := os.Stat(dir)
		if connErr != nil && os.IsNotExist(statErr) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s or its files in %s outlived the process", dsn, dir)
}

func serverDir(t *testing.T, dsn string) (dir string) {
	t.Helper()
	if err := connect(t, dsn).QueryRow(t.Context(), "SHOW data_directory").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	return dir
}
