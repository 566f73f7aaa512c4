package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/containerd/image"
	"github.com/assay-run/assay/pkg/store"
)

type imageCmd struct {
	List   imageListCmd   `cmd:"" help:"List the images on the fleet's workers, or in a containerd of this host."`
	Import imageImportCmd `cmd:"" help:"Import image archives into the containerd of this host's worker."`
	Build  imageBuildCmd  `cmd:"" help:"Build an image from the packages of this Debian or Ubuntu; needs root and mmdebstrap."`
	Prune  imagePruneCmd  `cmd:"" help:"Remove images that jobs pulled from the containerd of this host's worker."`
}

// imageFlags selects the images of this host's worker.
type imageFlags struct {
	Containerd string `name:"containerd" env:"ASSAY_CONTAINERD_ADDRESS" default:"/run/containerd/containerd.sock" help:"containerd's socket, or own for the worker's own containerd."`
	place
}

func (s *imageFlags) open(a *app, registries ...string) (*image.Host, error) {
	return s.place.open(a, s.Containerd, registries...)
}

// place locates the images in a containerd, or the worker's own containerd.
type place struct {
	StateDir  string `name:"state-dir" env:"ASSAY_STATE_DIR" default:"/run/assay/worker" help:"State directory of the worker; it contains the worker's own containerd."`
	Namespace string `name:"namespace" env:"ASSAY_CONTAINERD_NAMESPACE" default:"assay" help:"containerd namespace of Assay's images."`
}

// open connects to a containerd. Images of trusted registries count as the operator's.
func (s *place) open(a *app, address string, registries ...string) (*image.Host, error) {
	if address == "own" {
		var err error
		if address, err = dev.ContainerdAddress(filepath.Join(s.StateDir, "containerd")); err != nil {
			return nil, fmt.Errorf("--state-dir: %w", err)
		}
	}
	from, err := image.ParseSources(registries)
	if err != nil {
		return nil, fmt.Errorf("--image-registries: %w", err)
	}
	found, err := image.OpenHost(a.ctx, address, s.Namespace, from.Trusted)
	if err != nil {
		return nil, fmt.Errorf("images of this host: %w", err)
	}
	return found, nil
}

type imageListCmd struct {
	Host string `name:"containerd" placeholder:"ADDRESS" help:"List the images in this containerd instead: a socket, or own for the worker's."`
	place
	Registries []string `name:"image-registries" env:"ASSAY_IMAGE_REGISTRIES" placeholder:"ENTRY" help:"With --containerd: the worker's registries; images of ?trusted ones count as the operator's."`
}

func hasWorkers(p api.PoolSummary) bool { return p.Workers > 0 }

// imageList is the output of assay image list --json.
type imageList struct {
	Images   []fleetImage `json:"images"`
	Workers  int          `json:"workers"`  // workers that report their images
	Silent   []string     `json:"silent"`   // workers that do not, or not yet
	Unlisted int          `json:"unlisted"` // total of images beyond the workers' lists
}

// fleetImage is an image of some workers.
type fleetImage struct {
	policy.HostImage
	Workers int `json:"workers"` // number of workers with it
}

// Run lists images.
func (c *imageListCmd) Run(a *app) error {
	if c.Host != "" {
		return c.ofHost(a)
	}
	fleet, err := a.client()
	if err != nil {
		return err
	}
	all, err := fleet.Fleet(a.ctx)
	if err != nil {
		return err
	}
	if len(all.Workers) == 0 && slices.ContainsFunc(all.Pools, hasWorkers) {
		return errors.New("listing the images of workers needs an operator's token (--token, ASSAY_TOKEN)")
	}
	found := imagesOf(all.Workers)
	if a.JSON {
		return a.printJSON(found)
	}
	if err := a.printImages(found.Images, true); err != nil {
		return err
	}
	if found.Unlisted > 0 {
		a.printf("and %d more that workers did not list: each names %d\n", found.Unlisted, policy.MaxHostImages)
	}
	for _, id := range found.Silent {
		a.printf("%s has not reported its images\n", show.Plain(id))
	}
	return nil
}

// imagesOf merges the workers' lists, the operator's images first.
func imagesOf(workers []store.Worker) imageList {
	out := imageList{Images: []fleetImage{}, Silent: []string{}}
	type key struct { // without bytes, which differ between hosts
		name, digest string
		pulled       bool
	}
	at := map[key]int{}
	for _, w := range workers {
		var h policy.Host
		if json.Unmarshal(w.Host, &h) != nil || len(h.Images) == 0 {
			out.Silent = append(out.Silent, w.ID) // it has another version, or has just started
			continue
		}
		out.Workers++
		out.Unlisted += h.ImagesMore
		for _, i := range h.Images {
			k := key{i.Name, i.Digest, i.Pulled}
			n, ok := at[k]
			if !ok {
				n, at[k] = len(out.Images), len(out.Images)
				out.Images = append(out.Images, fleetImage{HostImage: i})
			}
			out.Images[n].Workers++
			out.Images[n].Bytes = max(out.Images[n].Bytes, i.Bytes)
		}
	}
	slices.SortFunc(out.Images, func(a, b fleetImage) int {
		return cmp.Or(cmp.Compare(originOf(a.HostImage), originOf(b.HostImage)), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest))
	})
	return out
}

func (c *imageListCmd) ofHost(a *app) error {
	s, err := c.open(a, c.Host, c.Registries...)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := s.List(a.ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(all)
	}
	found := make([]fleetImage, len(all))
	for i := range all {
		found[i].HostImage = all[i]
	}
	return a.printImages(found, false)
}

func (a *app) printImages(all []fleetImage, workers bool) error {
	headings := []any{"IMAGE", "DIGEST", "SIZE", "WHOSE"}
	if workers {
		headings = append(headings, "WORKERS")
	}
	t := show.NewTable(a.stdout, headings...)
	for _, i := range all {
		row := []any{i.Name, show.ShortDigest(i.Digest), show.Size(i.Bytes), originOf(i.HostImage)}
		if workers {
			row = append(row, i.Workers)
		}
		t.Row(row...)
	}
	return t.End()
}

// originOf returns the origin of an image.
func originOf(i policy.HostImage) string {
	if i.Pulled {
		return "pulled"
	}
	return "operator"
}

type imageImportCmd struct {
	imageFlags
	Files []string `arg:"" name:"file" help:"Archives from docker save or skopeo copy … oci-archive:, plain or compressed with gzip or zstd."`
}

// Run imports archives, each completely or not at all. If one is clearly invalid, it imports none.
func (c *imageImportCmd) Run(a *app) error {
	s, err := c.open(a)
	if err != nil {
		return err
	}
	defer s.Close()
	for _, file := range c.Files {
		if err := s.Check(file); err != nil {
			return err
		}
	}
	all := []policy.HostImage{}
	for _, file := range c.Files {
		made, err := s.Import(a.ctx, file)
		if err != nil {
			return errors.Join(err, a.sayImported(all))
		}
		all = append(all, made...)
	}
	return a.sayImported(all)
}

func (a *app) sayImported(all []policy.HostImage) error {
	if a.JSON {
		return a.printJSON(all)
	}
	for _, i := range all {
		a.printf("imported %s %s\n", show.Plain(i.Name), show.Plain(i.Digest))
	}
	return nil
}

type imagePruneCmd struct {
	imageFlags
	Registries []string      `name:"image-registries" env:"ASSAY_IMAGE_REGISTRIES" placeholder:"ENTRY" help:"The worker's registries; images of ?trusted ones are never removed."`
	Older      time.Duration `name:"older" placeholder:"DURATION" help:"Only images pulled or last found at their registry longer ago than this, such as 72h."`
	DryRun     bool          `name:"dry-run" help:"List the images and remove nothing."`
}

// Run removes images that jobs pulled.
func (c *imagePruneCmd) Run(a *app) error {
	if c.Older < 0 {
		return fmt.Errorf("--older: %v is negative", c.Older)
	}
	s, err := c.open(a, c.Registries...)
	if err != nil {
		return err
	}
	defer s.Close()
	all := []image.Pruned{}
	err = s.Prune(a.ctx, c.Older, c.DryRun, func(p image.Pruned) { all = append(all, p) })
	if a.JSON {
		return errors.Join(err, a.printJSON(all))
	}
	verb := map[bool]string{false: "removed", true: "would remove"}[c.DryRun]
	var bytes int64
	for _, p := range all {
		bytes += p.Bytes
		note := ""
		if p.InUse {
			note = ": a worker has its files, and lets go of them when nothing runs in it"
		}
		a.printf("%s %s %s, %s%s\n", verb, show.Plain(p.Name), show.ShortDigest(p.Digest), show.Size(p.Bytes), note)
	}
	a.printf("%s %d images of %d bytes\n", verb, len(all), bytes)
	return err
}
