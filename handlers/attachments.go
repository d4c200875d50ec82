package handlers

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"nod/state"
	"nod/state/snapshot"
)

const (
	// maxFiles is how many files and images go along with a message.
	maxFiles = 5
	// maxImages bounds the images of a message together, in bytes: they are kept with a
	// message as long as it waits.
	maxImages = 10 << 20
	// maxText bounds what is typed beside them, in bytes.
	maxText = 1 << 20
)

// imageTypes are those that models can look at.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// uploads reports whether a request brings images along, as only a message may. Its route
// may stand below a base path.
func uploads(c echo.Context) bool {
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data" && c.Request().Method == http.MethodPost && strings.HasSuffix(c.Path(), messagesPath)
}

// readUpload reads a form with images into memory.
func readUpload(c echo.Context) error {
	if !uploads(c) {
		return nil
	}
	const most = maxImages + 2*maxText // the form itself takes some bytes too
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, most)
	err := r.ParseMultipartForm(most)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problemUpload
	case err != nil:
		return problemForm
	case len(c.FormValue("text"))+len(c.FormValue("paths")) > maxText:
		return problemTooLarge
	}
	return nil
}

// imagesLost is what a person has to do again, since a page cannot hold the images that
// were chosen; "" if there are none.
func imagesLost(c echo.Context) string {
	if f := c.Request().MultipartForm; f == nil || len(f.File["images"]) == 0 {
		return ""
	}
	return "Choose the images again."
}

// attachments are the files and images of a message, or a sentence about what is wrong
// with them.
func attachments(c echo.Context, v snapshot.Session) (out []state.MessageAttachment, problem string) {
	var paths []string
	for line := range strings.Lines(c.FormValue("paths")) {
		if line = strings.TrimSpace(line); line != "" {
			paths = append(paths, line)
		}
	}
	var images []image
	if f := c.Request().MultipartForm; f != nil {
		for _, h := range f.File["images"] {
			file, err := h.Open()
			if err != nil {
				return nil, "An image could not be read. Nothing was sent."
			}
			data, err := io.ReadAll(file)
			_ = file.Close() // it is in memory
			if err != nil {
				return nil, "An image could not be read. Nothing was sent."
			}
			images = append(images, image{state.TitleOf(strings.ToValidUTF8(h.Filename, "")), data})
		}
	}
	switch n := len(paths) + len(images); {
	case n == 0:
		return nil, ""
	case !v.Link.Offers.Attaches:
		return nil, v.Link.DisplayName + " takes no files and images now. Nothing was sent."
	case n > maxFiles:
		return nil, fmt.Sprintf("Up to %d files and images go along with a message. Nothing was sent.", maxFiles)
	}
	for _, path := range paths {
		a, problem := fileAt(path, state.FilePath(state.Value(v.State.Summary.WorkingDirectory)))
		if problem != "" {
			return nil, "“" + state.TitleOf(path) + "”: " + problem + " Nothing was sent."
		}
		out = append(out, a)
	}
	total := 0
	for _, i := range images {
		kind := http.DetectContentType(i.data) // what its name says is somebody's word
		if !slices.Contains(imageTypes, kind) {
			return nil, "“" + i.name + "” is no PNG, JPEG, GIF or WebP image. Nothing was sent; name other files by their paths."
		}
		if total += len(i.data); total > maxImages {
			return nil, "Images may have up to 10 MB together. Nothing was sent."
		}
		data := base64.StdEncoding.EncodeToString(i.data)
		out = append(out, state.MessageAttachment{Type: "embeddedResource", Label: i.name, ContentType: &kind, Data: &data, DisplayKind: new("image")})
	}
	return out, ""
}

type image struct {
	name string
	data []byte
}

// fileAt is the file that a person names.
func fileAt(path, folder string) (a state.MessageAttachment, problem string) {
	path, problem = fromHome(path)
	if problem != "" {
		return a, problem
	}
	switch {
	case filepath.IsAbs(path):
	case folder == "":
		return a, "Name its whole path."
	default:
		path = filepath.Join(folder, path)
	}
	switch info, err := os.Stat(path); {
	case os.IsNotExist(err):
		return a, "There is no such file."
	case err != nil:
		return a, "It cannot be read."
	case !info.Mode().IsRegular():
		return a, "That is no file."
	default:
		return state.MessageAttachment{Type: "resource", Label: filepath.Base(path), URI: new(state.FileURI(filepath.Clean(path))), SizeHint: new(info.Size())}, ""
	}
}
