package objects

import corev1 "k8s.io/api/core/v1"

// tokenVolume is the volume that the ServiceAccount admission plugin adds to every real pod, each time under a
// different name.
func tokenVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(0o644)),
			Sources:     []corev1.VolumeProjection{token(), authority(), namespaceFile()},
		},
	}}
}

func token() corev1.VolumeProjection {
	return corev1.VolumeProjection{
		ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"},
	}
}

func authority() corev1.VolumeProjection {
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
		Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
	}}
}

func namespaceFile() corev1.VolumeProjection {
	return corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{
		Items: []corev1.DownwardAPIVolumeFile{{
			Path:     "namespace",
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
		}},
	}}
}
