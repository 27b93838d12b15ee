// List the runs of a platform, with how far the training of each is.
//
//	go run . [DATA_DIR]
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

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

func run(dataDir string) error {
	address, err := os.ReadFile(filepath.Join(dataDir, "endpoint"))
	if err != nil {
		return fmt.Errorf("%w; is the platform running? start it with `tutti up`", err)
	}
	secret, err := token(dataDir, "engineer")
	if err != nil {
		return err
	}
	target := strings.TrimSpace(string(address))
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret)
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

func main() {
	dataDir := ".tutti"
	if len(os.Args) > 1 {
		dataDir = os.Args[1]
	}
	if err := run(dataDir); err != nil {
		log.Fatal(err)
	}
}
