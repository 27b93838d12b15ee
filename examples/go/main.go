// List the runs of a platform, with how far the training of each is, or follow one run until it ends.
//
//	go run . [--data-dir DATA_DIR] [RUN]
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	adminv1 "github.com/tutti/tutti/gen/tutti/admin/v1"
	commonv1 "github.com/tutti/tutti/gen/tutti/common/v1"
	pipelinev1 "github.com/tutti/tutti/gen/tutti/pipeline/v1"
)

// token returns the token of a role, from the file that the platform keeps in its data directory.
func token(dataDir, role string) (string, error) {
	file, err := os.Open(filepath.Join(dataDir, "tokens"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, secret, found := strings.Cut(lines.Text(), " "); found && name == role {
			return secret, nil
		}
	}
	return "", fmt.Errorf("%s has no token of the role %s", file.Name(), role)
}

// connect opens a connection to the platform of a data directory; the context authorizes calls on it.
func connect(dataDir string) (*grpc.ClientConn, context.Context, error) {
	address, err := os.ReadFile(filepath.Join(dataDir, "endpoint"))
	if err != nil {
		return nil, nil, fmt.Errorf("%w; is the platform running? start it with `tutti up`", err)
	}
	secret, err := token(dataDir, "engineer")
	if err != nil {
		return nil, nil, err
	}
	target := strings.TrimSpace(string(address))
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	return connection, metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+secret), nil
}

func list(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := pipelinev1.NewPipelineServiceClient(connection)
	request := &commonv1.ListRequest{}
	for {
		page, err := client.ListRuns(ctx, request)
		if err != nil {
			return err
		}
		for _, each := range page.Runs {
			whole, err := client.GetRun(ctx, &commonv1.GetRequest{Name: each.Name})
			if err != nil {
				return err
			}
			fmt.Printf("%s  %s  step %d\n", whole.Name, whole.State, whole.GetTraining().GetStep())
		}
		if request.PageToken = page.NextPageToken; request.PageToken == "" {
			return nil
		}
	}
}

// follow prints each snapshot of a run until the run has ended. A stream that breaks is opened again after the newest
// revision that was seen, so that nothing is printed twice.
func follow(ctx context.Context, connection *grpc.ClientConn, name string) error {
	client, seen := adminv1.NewAdminClient(connection), uint64(0)
	for {
		stream, err := client.Watch(ctx, &adminv1.WatchRequest{Name: name, SinceRevision: seen})
		if err != nil {
			return err
		}
		for {
			snapshot, err := stream.Recv()
			if status.Code(err) == codes.Unavailable {
				time.Sleep(time.Second)
				break
			}
			if err != nil {
				return err
			}
			run := &pipelinev1.Run{}
			if err := snapshot.Resource.UnmarshalTo(run); err != nil {
				return err
			}
			seen = snapshot.Revision
			fmt.Printf("%s  revision %d  %s\n", run.Name, seen, run.State)
			switch run.State {
			case commonv1.State_STATE_DONE, commonv1.State_STATE_FAILED, commonv1.State_STATE_CANCELLED:
				return nil
			}
		}
	}
}

func run(dataDir, name string) error {
	connection, ctx, err := connect(dataDir)
	if err != nil {
		return err
	}
	defer connection.Close()
	if name == "" {
		return list(ctx, connection)
	}
	return follow(ctx, connection, name)
}

func main() {
	dataDir := flag.String("data-dir", ".tutti", "data directory of the platform")
	flag.Parse()
	if flag.NArg() > 1 {
		log.Fatalf("expected one RUN, got %q; options come before it", flag.Args())
	}
	if err := run(*dataDir, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}
