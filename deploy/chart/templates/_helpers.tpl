{{/* The full name of the image; a digest is stronger than a tag. */}}
{{- define "watchword.image" -}}
{{- $name := printf "%s/%s" .Values.image.registry .Values.image.repository -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" $name .Values.image.digest }}
{{- else }}{{ printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* Where add-ons run beside the agent. */}}
{{- define "watchword.addonNamespace" -}}
{{- .Values.agent.namespace }}-addon
{{- end }}

{{/* The names of the pull secrets, separated by commas. */}}
{{- define "watchword.pullSecretNames" -}}
{{- $names := list }}
{{- range .Values.imagePullSecrets }}{{ $names = append $names .name }}{{ end }}
{{- join "," $names }}
{{- end }}

{{/* What the ClusterManager says in annotations, as JSON; empty when it says nothing. */}}
{{- define "watchword.hubAnnotations" -}}
{{- $said := dict }}
{{- with include "watchword.pullSecretNames" . }}{{ $_ := set $said "watchword.dev/image-pull-secrets" . }}{{ end }}
{{- if ne (int .Values.hub.replicas) 1 }}{{ $_ := set $said "watchword.dev/replicas" (int .Values.hub.replicas | toString) }}{{ end }}
{{- if $said }}{{ toJson $said }}{{ end }}
{{- end }}

{{/* What the Klusterlet says in annotations, as JSON; empty when it says nothing. */}}
{{- define "watchword.agentAnnotations" -}}
{{- with include "watchword.pullSecretNames" . }}{{ dict "watchword.dev/image-pull-secrets" . | toJson }}{{ end }}
{{- end }}

{{/* What the removal deletes, as JSON. */}}
{{- define "watchword.removalArguments" -}}
{{- $words := list "undeploy" }}
{{- if .Values.agent.enabled }}{{ $words = append $words (printf "--klusterlet=%s" .Values.agent.klusterletName) }}{{ end }}
{{- if .Values.hub.enabled }}{{ $words = append $words "--cluster-manager=cluster-manager" }}{{ end }}
{{- toJson $words }}
{{- end }}
